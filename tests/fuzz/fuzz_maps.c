/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_maps: any bytes as a maps file, and as an ELF file that is mapped there. What is
 * accepted has to keep the promises of maps.h.
 */
#include "fuzz.h"
#include "ht_elf.h"
#include "unwind/binary.h"
#include "unwind/maps.h"

#define REACH (UINT64_C(1) << 31)

static void check_maps(const struct ht_maps *maps, size_t size)
{
	ht_addr_t above = 0, gap;
	size_t i, paths = 0;

	for (i = 0; i < ht_maps_count(maps); i++) {
		const struct ht_area *area = ht_maps_at(maps, i);

		CHECK(area->start >= above && area->end > area->start);
		above = area->end;
		paths += strlen(area->path) + 1;
		CHECK(ht_maps_find(maps, area->start) == area);
		CHECK(ht_maps_find(maps, area->end - 1) == area);
		gap = ht_maps_gap(maps, area->start, area->end, REACH, 65536);
		if (!gap || i > 16)
			continue;
		CHECK(gap % 4096 == 0 && gap >= 65536);
		CHECK(gap + 65536 <= (UINT64_C(1) << 47) - 4096);
		CHECK(!ht_maps_find(maps, gap) && !ht_maps_find(maps, gap + 65535));
		if (gap < area->start)
			CHECK(area->end - gap <= REACH);
		else
			CHECK(gap + 65536 - area->start <= REACH);
	}
	CHECK(paths <= size + 1);
}

static void try_binary(const struct ht_binary *binary, const struct ht_maps *maps)
{
	uint64_t bias, previous = 0;
	size_t i;

	for (i = 0; i < ht_maps_count(maps) && i < 16; i++) {
		const struct ht_area *area = ht_maps_at(maps, i);

		if (ht_binary_bias(binary, area, i ? &previous : NULL, &bias) < 0)
			continue;
		previous = bias;
		ht_binary_is_text(binary, area->start - bias, area->end - area->start);
		(void)ht_binary_at(binary, area->start - bias, 16);
	}
}

/* Bytes up to the first NUL are the maps, those behind it the file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *zero = memchr(data, 0, size);
	size_t len = zero ? (size_t)(zero - data) : size;
	struct ht_binary binary;
	struct ht_maps *maps;

	if (ht_maps_parse((const char *)data, len, &maps) < 0)
		return 0;
	check_maps(maps, len);
	if (zero && ht_binary_read(zero + 1, size - len - 1, &binary) == 0)
		try_binary(&binary, maps);
	ht_maps_free(maps);
	return 0;
}

static const char maps_text[] =
	"555500000000-555500001000 r--p 00000000 00:01 77      /made (deleted)\n"
	"555500001000-555500002000 r-xp 00001000 00:01 77      /made (deleted)\n"
	"7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n"
	"7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0       [stack]\n"
	"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";

const unsigned fuzz_runs = 3000;

void fuzz_seed(unsigned i, struct fuzz_output *out)
{
	static struct ht_elf elf;
	uint8_t *image;
	size_t len;

	if (i > 0)
		return;
	fuzz_put(out, maps_text, sizeof(maps_text));
	ht_elf_init(&elf);
	image = ht_elf_build(&elf, &len);
	fuzz_put(out, image, ht_min(len, (size_t)1024));
	free(image);
}
