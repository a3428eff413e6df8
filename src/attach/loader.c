/* SPDX-License-Identifier: Apache-2.0
 *
 * loader.c: see loader.h. The loader's image is read as the kernel mapped it; it may be any
 * file that a program names as its interpreter, so everything is bounded.
 */
#include "attach/loader.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "attach/proc.h"
#include "base/fd.h"

#define PHDRS_MAX 64
#define DYNS_MAX 256
#define CHAIN_MAX 4096

struct symbols {
	ht_addr_t base;
	ht_addr_t symtab, strtab, gnu_hash;
};

static int read_auxv(const struct ht_target *target, struct ht_ldso *loader)
{
	_cleanup_(ht_fd_closep) int fd =
		openat(ht_target_procfd(target), "auxv", O_RDONLY | O_CLOEXEC);
	Elf64_auxv_t auxv[64];
	ssize_t n = fd < 0 ? -1 : read(fd, auxv, sizeof(auxv));

	if (n < 0)
		return -ESRCH;
	for (size_t i = 0; i < (size_t)n / sizeof(auxv[0]); i++) {
		if (auxv[i].a_type == AT_ENTRY)
			loader->entry = auxv[i].a_un.a_val;
		if (auxv[i].a_type == AT_BASE)
			loader->base = auxv[i].a_un.a_val;
	}
	return loader->entry ? 0 : -EINVAL;
}

static int find_dynamic(const struct ht_target *target, ht_addr_t base, Elf64_Phdr *ret_phdr)
{
	Elf64_Phdr phdrs[PHDRS_MAX];
	Elf64_Ehdr header;
	int r = ht_target_read(target, base, &header, sizeof(header));

	if (r < 0)
		return r;
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_phentsize != sizeof(phdrs[0]) || header.e_phnum > PHDRS_MAX)
		return -EINVAL;
	r = ht_target_read(target, base + header.e_phoff, phdrs,
			   header.e_phnum * sizeof(phdrs[0]));
	if (r < 0)
		return r;
	for (unsigned i = 0; i < header.e_phnum; i++) {
		if (phdrs[i].p_type == PT_DYNAMIC) {
			*ret_phdr = phdrs[i];
			return 0;
		}
	}
	return -ENOENT;
}

static int read_dynamic(const struct ht_target *target, ht_addr_t base,
			struct symbols *ret_symbols)
{
	struct symbols symbols = { .base = base };
	Elf64_Dyn dyn[DYNS_MAX];
	Elf64_Phdr phdr;
	size_t n;
	int r = find_dynamic(target, base, &phdr);

	if (r < 0)
		return r;
	n = ht_min(phdr.p_memsz / sizeof(dyn[0]), (uint64_t)DYNS_MAX);
	r = ht_target_read(target, base + phdr.p_vaddr, dyn, n * sizeof(dyn[0]));
	if (r < 0)
		return r;
	/* Not relocated yet: addresses are as in the file. */
	for (size_t i = 0; i < n && dyn[i].d_tag != DT_NULL; i++) {
		if (dyn[i].d_tag == DT_SYMTAB)
			symbols.symtab = base + dyn[i].d_un.d_ptr;
		else if (dyn[i].d_tag == DT_STRTAB)
			symbols.strtab = base + dyn[i].d_un.d_ptr;
		else if (dyn[i].d_tag == DT_GNU_HASH)
			symbols.gnu_hash = base + dyn[i].d_un.d_ptr;
	}
	if (!symbols.symtab || !symbols.strtab || !symbols.gnu_hash)
		return -ENOENT;
	*ret_symbols = symbols;
	return 0;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

/* Is the symbol at @index called @name, and defined? */
static bool is_symbol(const struct ht_target *target, const struct symbols *symbols,
		      uint32_t index, const char *name, ht_addr_t *ret_addr)
{
	char text[64];
	size_t len = strlen(name) + 1;
	Elf64_Sym sym;

	if (len > sizeof(text) ||
	    ht_target_read(target, symbols->symtab + (uint64_t)index * sizeof(sym), &sym,
			   sizeof(sym)) < 0 ||
	    ht_target_read(target, symbols->strtab + sym.st_name, text, len) < 0)
		return false;
	if (memcmp(text, name, len) != 0 || sym.st_shndx == SHN_UNDEF)
		return false;
	*ret_addr = symbols->base + sym.st_value;
	return true;
}

static int find_symbol(const struct ht_target *target, const struct symbols *symbols,
		       const char *name, ht_addr_t *ret_addr)
{
	uint32_t hash = gnu_hash(name), index, entry;
	struct {
		uint32_t n_buckets, first, bloom_len, shift;
	} header;
	ht_addr_t buckets, chain;
	int r = ht_target_read(target, symbols->gnu_hash, &header, sizeof(header));

	if (r < 0)
		return r;
	if (!header.n_buckets)
		return -ENOENT;
	buckets = symbols->gnu_hash + sizeof(header) + (uint64_t)header.bloom_len * 8;
	chain = buckets + (uint64_t)header.n_buckets * 4;
	r = ht_target_read(target, buckets + (uint64_t)(hash % header.n_buckets) * 4, &index,
			   sizeof(index));
	if (r < 0)
		return r;
	if (index < header.first)
		return -ENOENT;
	for (unsigned i = 0; i < CHAIN_MAX; i++, index++) {
		r = ht_target_read(target, chain + (uint64_t)(index - header.first) * 4,
				   &entry, sizeof(entry));
		if (r < 0)
			return r;
		if ((entry | 1) == (hash | 1) &&
		    is_symbol(target, symbols, index, name, ret_addr))
			return 0;
		if (entry & 1)
			break;
	}
	return -ENOENT;
}

int ht_ldso_read(const struct ht_target *target, struct ht_ldso *ret_loader)
{
	struct ht_ldso loader = { 0 };
	struct symbols symbols;
	int r = read_auxv(target, &loader);

	if (r < 0)
		return r;
	/* Only glibc's has both; musl's keeps a pointer to its own. */
	if (loader.base && read_dynamic(target, loader.base, &symbols) == 0 &&
	    (find_symbol(target, &symbols, "_dl_debug_state", &loader.brk) < 0 ||
	     find_symbol(target, &symbols, "_r_debug", &loader.debug) < 0))
		loader.brk = loader.debug = 0;
	*ret_loader = loader;
	return 0;
}

int ht_ldso_state(const struct ht_target *target, const struct ht_ldso *loader,
		    enum ht_ldso_state *ret_state)
{
	struct r_debug debug;
	int r = ht_target_read(target, loader->debug, &debug, sizeof(debug));

	if (r < 0)
		return r;
	if (debug.r_version < 1 || !debug.r_map)
		return -EAGAIN;
	switch ((int)debug.r_state) {
	case RT_CONSISTENT:
		*ret_state = HT_LDSO_CONSISTENT;
		return 0;
	case RT_ADD:
		*ret_state = HT_LDSO_ADDS;
		return 0;
	case RT_DELETE:
		*ret_state = HT_LDSO_DELETES;
		return 0;
	default:
		return -EINVAL;
	}
}
