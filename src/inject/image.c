/* SPDX-License-Identifier: Apache-2.0
 *
 * image.c: see image.h.
 */
#include "inject/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/fd.h"
#include "unwind/table.h"

/* Names of our own files in the target. */
#define OWN_PREFIX "/memfd:heaptap"

static bool is_own(const struct ht_module *module)
{
	return !strncmp(ht_module_path(module), OWN_PREFIX, strlen(OWN_PREFIX));
}

static struct ht_image *find(const struct ht_images *images, const struct ht_module *module,
			     uint64_t bias)
{
	struct ht_image *image;

	ht_vec_foreach(image, &images->all) {
		if (image->module == module && image->bias == bias)
			return image;
	}
	return NULL;
}

static int add(struct ht_images *images, const struct ht_mapping *mapping)
{
	struct ht_elfdyn view;
	struct ht_image *image;
	const uint8_t *bytes;
	size_t len = 0;

	if (find(images, mapping->module, mapping->bias) || is_own(mapping->module))
		return 0;
	bytes = ht_module_image(mapping->module, &len);
	if (!bytes || ht_elfdyn_open(bytes, len, &view) < 0)
		return 0;
	image = ht_vec_push(&images->all);
	if (!image)
		return -ENOMEM;
	image->module = mapping->module;
	image->bias = mapping->bias;
	image->view = view;
	return 0;
}

int ht_images_open(const struct ht_space *space, int memfd, struct ht_images *ret_images)
{
	struct ht_images images = { .space = space, .memfd = memfd };
	int r = 0;

	images.extents = calloc(1, sizeof(*images.extents));
	if (!images.extents)
		return -ENOMEM;
	for (size_t i = 0; !r && i < ht_space_count(space); i++) {
		const struct ht_mapping *mapping = ht_space_at(space, i);

		/* A module without an executable area has nothing to patch or to call. */
		if (mapping->module && (mapping->prot & HT_PROT_EXEC))
			r = add(&images, mapping);
	}
	if (r < 0) {
		ht_images_fini(&images);
		return r;
	}
	*ret_images = images;
	return 0;
}

void ht_images_fini(struct ht_images *images)
{
	struct ht_image *image;

	ht_vec_foreach(image, &images->all)
		ht_map_fini(&image->slots);
	ht_vec_fini(&images->all);
	if (images->extents)
		ht_map_fini(images->extents);
	free(images->extents);
	images->extents = NULL;
}

struct ht_image *ht_images_of(const struct ht_images *images, ht_addr_t addr)
{
	const struct ht_mapping *mapping = ht_space_find(images->space, addr);

	return mapping && mapping->module ? find(images, mapping->module, mapping->bias) :
					    NULL;
}

const uint8_t *ht_images_code(const struct ht_images *images, ht_addr_t addr,
			      struct ht_image **ret_image, size_t *ret_len)
{
	const struct ht_mapping *mapping = ht_space_find(images->space, addr);
	struct ht_image *image;
	const uint8_t *code;
	size_t len;

	if (!mapping || !mapping->module || !(mapping->prot & HT_PROT_EXEC))
		return NULL;
	image = find(images, mapping->module, mapping->bias);
	if (!image)
		return NULL;
	code = ht_elfdyn_at(&image->view, addr - image->bias, &len);
	if (!code)
		return NULL;
	*ret_image = image;
	*ret_len = ht_min(len, mapping->end - addr);
	return code;
}

static bool find_function(const struct ht_images *images, ht_addr_t addr,
			  ht_addr_t *ret_start, size_t *ret_len)
{
	const struct ht_table *table;
	struct ht_image *image;
	uint64_t pc, start, end, row;
	struct ht_rule rule;
	size_t len;

	if (!ht_images_code(images, addr, &image, &len))
		return false;
	table = ht_module_table(image->module);
	if (!table)
		return false;
	pc = addr - image->bias;
	for (start = pc; !ht_table_starts_at(table, start); start = row) {
		if (!ht_table_lookup(table, start, &rule, &row) || !row ||
		    rule.cfa_kind == HT_CFA_GAP || pc - row >= HT_FUNCTION_MAX)
			return false;
		if (row >= start)
			row = start - 1;
	}
	for (end = pc + 1; end - pc < len && end - start < HT_FUNCTION_MAX; end++) {
		if (ht_table_starts_at(table, end) ||
		    !ht_table_lookup(table, end, &rule, NULL) ||
		    rule.cfa_kind == HT_CFA_GAP)
			break;
	}
	*ret_start = start + image->bias;
	*ret_len = end - start;
	return true;
}

bool ht_images_function(const struct ht_images *images, ht_addr_t addr,
			ht_addr_t *ret_start, size_t *ret_len)
{
	uint64_t *known = ht_map_get(images->extents, addr), extent = 0;
	ht_addr_t start;
	size_t len;

	if (known)
		extent = *known;
	else if (find_function(images, addr, &start, &len))
		extent = (addr - start) << 32 | len;
	/* Without memory for it, it's found again next time. */
	if (!known)
		(void)!ht_map_put(images->extents, addr, extent);
	if (!extent)
		return false;
	*ret_start = addr - (extent >> 32);
	*ret_len = (uint32_t)extent;
	return true;
}

int ht_images_read(const struct ht_images *images, ht_addr_t addr, void *buf, size_t len)
{
	int r = ht_fd_pread_all(images->memfd, buf, len, addr);

	return r == -ENODATA ? -EIO : r;
}

/* ---- GOT slots ---- */

/* Both relocation tables, numbered through. */
static size_t relas_count(const struct ht_image *image)
{
	return image->view.rela.count + image->view.jmprel.count;
}

static Elf64_Rela rela_at(const struct ht_image *image, size_t i)
{
	const struct ht_elfdyn *view = &image->view;

	return i < view->rela.count ? ht_elf_relas_at(&view->rela, i) :
				      ht_elf_relas_at(&view->jmprel, i - view->rela.count);
}

static bool fills_slot(const Elf64_Rela *rela)
{
	switch (ELF64_R_TYPE(rela->r_info)) {
	case R_X86_64_JUMP_SLOT:
	case R_X86_64_GLOB_DAT:
	case R_X86_64_64:
	case R_X86_64_IRELATIVE:
		return true;
	default:
		return false;
	}
}

/* Out of memory leaves slots without names: the plan is then only more careful. */
static void learn_slots(struct ht_image *image)
{
	if (image->slots_known)
		return;
	image->slots_known = true;
	for (size_t i = 0; i < relas_count(image); i++) {
		Elf64_Rela rela = rela_at(image, i);

		if (fills_slot(&rela) && ht_map_put(&image->slots, rela.r_offset, i) < 0)
			return;
	}
}

/* The name of the symbol that @rela refers to, if it fits. */
static void rela_name(const struct ht_image *image, const Elf64_Rela *rela,
		      char name[HT_SLOT_NAME])
{
	size_t i = ELF64_R_SYM(rela->r_info), max, len;
	const char *its;
	Elf64_Sym sym;

	name[0] = 0;
	if (!i || i >= image->view.dynsym.count)
		return;
	sym = ht_elf_symtab_at(&image->view.dynsym, i);
	its = ht_elf_symtab_name(&image->view.dynsym, &sym, &max);
	len = strnlen(its, ht_min(max, (size_t)HT_SLOT_NAME));
	if (len >= ht_min(max, (size_t)HT_SLOT_NAME))
		return;
	memcpy(name, its, len);
	name[len] = 0;
}

/* Before its first call a lazily bound slot points behind its own PLT stub, as the file
 * has it, moved by the bias. */
static bool unbound(const struct ht_image *image, ht_addr_t slot, ht_addr_t value)
{
	const uint8_t *at;
	uint64_t initial;
	size_t len;

	at = ht_elfdyn_at(&image->view, slot - image->bias, &len);
	if (!at || len < sizeof(initial))
		return false;
	memcpy(&initial, at, sizeof(initial));
	return initial && value == initial + image->bias;
}

bool ht_images_slot(const struct ht_images *images, ht_addr_t slot, struct ht_slot *ret_slot)
{
	struct ht_image *image = ht_images_of(images, slot);
	struct ht_slot result = { .target = 0 };
	struct ht_image *other;
	const uint64_t *number;
	ht_addr_t value;
	size_t len;

	if (!image)
		return false;
	learn_slots(image);
	number = ht_map_get(&image->slots, slot - image->bias);
	if (number) {
		Elf64_Rela rela = rela_at(image, *number);

		rela_name(image, &rela, result.name);
		if (ELF64_R_TYPE(rela.r_info) == R_X86_64_JUMP_SLOT)
			number = NULL;	/* may be unbound */
	}
	if (!ht_images_read(images, slot, &value, sizeof(value)) &&
	    (number || !unbound(image, slot, value)) &&
	    ht_images_code(images, value, &other, &len))
		result.target = value;
	if (!result.target && !result.name[0])
		return false;
	*ret_slot = result;
	return true;
}

/* To @target itself, or to where the slot there leads. */
static bool lead_to(const struct ht_images *images, ht_addr_t target, bool indirect,
		    struct ht_slot *ret_slot)
{
	if (indirect)
		return ht_images_slot(images, target, ret_slot);
	*ret_slot = (struct ht_slot){ .target = target };
	return true;
}

bool ht_images_forward(const struct ht_images *images, ht_addr_t addr,
		       struct ht_slot *ret_slot)
{
	struct ht_image *image;
	const uint8_t *code;
	ht_addr_t target;
	bool indirect;
	size_t len;

	code = ht_images_code(images, addr, &image, &len);
	if (!code || !ht_insn_is_forwarder(code, len, addr, &target, &indirect))
		return false;
	return lead_to(images, target, indirect, ret_slot);
}

bool ht_images_wraps(const struct ht_images *images, ht_addr_t addr, size_t len,
		     struct ht_slot *ret_slot)
{
	struct ht_image *image;
	const uint8_t *code;
	ht_addr_t target;
	bool indirect;
	size_t left;

	code = ht_images_code(images, addr, &image, &left);
	if (!code || !ht_insn_is_wrapper(code, ht_min(len, left), addr, &target, &indirect))
		return false;
	return lead_to(images, target, indirect, ret_slot);
}

/* ---- IFUNC ---- */

/* Does @rela, of @user, stand for the IFUNC? By name from anywhere, or by the address of
 * its resolver from within its own image. */
static bool means_ifunc(const struct ht_image *user, const Elf64_Rela *rela,
			const struct ht_image *image, const char *name, ht_addr_t resolver)
{
	char its[HT_SLOT_NAME];

	if (ELF64_R_TYPE(rela->r_info) == R_X86_64_IRELATIVE)
		return user == image && (uint64_t)rela->r_addend + image->bias == resolver;
	if (!fills_slot(rela))
		return false;
	rela_name(user, rela, its);
	return !strcmp(its, name);
}

ht_addr_t ht_images_ifunc(const struct ht_images *images, const struct ht_image *image,
			  const char *name, ht_addr_t resolver)
{
	struct ht_image *user, *home;
	ht_addr_t slot, value;
	size_t len;

	ht_vec_foreach(user, &images->all) {
		for (size_t i = 0; i < relas_count(user); i++) {
			Elf64_Rela rela = rela_at(user, i);

			if (!means_ifunc(user, &rela, image, name, resolver))
				continue;
			slot = rela.r_offset + user->bias;
			if (ht_images_read(images, slot, &value, sizeof(value)) < 0 ||
			    value == resolver || unbound(user, slot, value))
				continue;
			/* Another module's function of that name may be meant. */
			if (ht_images_code(images, value, &home, &len) && home == image)
				return value;
		}
	}
	return 0;
}
