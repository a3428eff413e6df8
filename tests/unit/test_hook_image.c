/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/hook_image.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "heaptap/wire.h"
#include "ht_check.h"

START_TEST(image_has_what_the_tool_needs)
{
	struct ht_hook_image image;
	struct ht_hook_config config;
	bool text = false;

	ck_ok(ht_hook_image_load(&image, NULL));
	ck_assert_uint_le(image.config + sizeof(config), image.size);
	memcpy(&config, image.bytes + image.config, sizeof(config));
	ck_assert_uint_eq(config.magic, HT_HOOK_MAGIC);
	ck_assert_uint_eq(config.version, HT_WIRE_VERSION);
	for (unsigned i = 0; i < image.n_segments; i++) {
		const struct ht_hook_segment *s = &image.segments[i];

		ck_assert_uint_eq(s->offset % 4096, 0);
		ck_assert_uint_eq(s->size % 4096, 0);
		ck_assert_msg((s->prot & (PROT_WRITE | PROT_EXEC)) != (PROT_WRITE | PROT_EXEC),
			      "a segment is writable and executable");
		if (s->prot & PROT_EXEC)
			text |= image.enter >= s->offset && image.enter < s->offset + s->size;
		if (image.config >= s->offset && image.config < s->offset + s->size)
			ck_assert_int_eq(s->prot, PROT_READ | PROT_WRITE);
	}
	ck_assert(text);
	/* endbr64: stubs come here by an indirect jump. */
	ck_assert_mem_eq(image.bytes + image.enter, "\xf3\x0f\x1e\xfa", 4);
	ht_hook_image_fini(&image);
}
END_TEST

START_TEST(file_is_a_shared_object)
{
	size_t len;
	const uint8_t *file = ht_hook_file(&len);

	ck_assert_uint_gt(len, 4096);
	ck_assert_mem_eq(file, "\177ELF", 4);
}
END_TEST

int main(void)
{
	return ht_check_run("hook_image", (const TTest *const[]){
		image_has_what_the_tool_needs, file_is_a_shared_object, NULL });
}
