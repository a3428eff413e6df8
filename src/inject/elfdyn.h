/* SPDX-License-Identifier: Apache-2.0
 *
 * elfdyn.h: the parts of a module's ELF image that planning needs: what is mapped where,
 * both symbol tables, the relocations of the GOT. A view points into the image and owns
 * nothing. All offsets and counts were checked when it was made; names are read within the
 * bounds of their table, whose bytes may change under us (a mapped file). Headers are
 * read by unwind/elfview.h. For this folder only.
 */
#ifndef HT_INJECT_ELFDYN_H
#define HT_INJECT_ELFDYN_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/elfview.h"

#define HT_ELF_LOADS_MAX 64

struct ht_elf_load {
	uint64_t vaddr;
	uint64_t filesz;	/* bytes that the image really has */
	uint64_t memsz;
	const uint8_t *bytes;
	bool exec;
	bool write;
};

struct ht_elf_symtab {
	const uint8_t *syms;	/* Elf64_Sym each, unaligned */
	size_t count;
	const char *strs;
	size_t strs_len;
	const uint8_t *versym;	/* one uint16_t each, or NULL */
};

struct ht_elf_relas {
	const uint8_t *at;	/* Elf64_Rela each, unaligned */
	size_t count;
};

struct ht_elfdyn_bytes {
	const uint8_t *at;
	size_t len;
};

struct ht_elfdyn {
	struct ht_elfview elf;
	struct ht_elf_load loads[HT_ELF_LOADS_MAX];
	unsigned n_loads;
	struct ht_elf_symtab dynsym;
	struct ht_elf_symtab symtab;
	struct ht_elfdyn_bytes gnu_hash;
	struct ht_elfdyn_bytes sysv_hash;
	struct ht_elf_relas rela;	/* DT_RELA */
	struct ht_elf_relas jmprel;	/* DT_JMPREL */
};

/* -EINVAL: not an x86-64 ELF file with loadable segments. What is malformed further in is
 * left out, not an error. */
int ht_elfdyn_open(const uint8_t *image, size_t len, struct ht_elfdyn *ret_view)
	_must_check_ _nonnull_args_(3);

/* The file's bytes from ELF address @vaddr to the end of its segment; NULL: it has none. */
const uint8_t *ht_elfdyn_at(const struct ht_elfdyn *view, uint64_t vaddr,
			     size_t *ret_len) _nonnull_;
/* The segment that holds @vaddr, or NULL. */
const struct ht_elf_load *ht_elfdyn_load(const struct ht_elfdyn *view, uint64_t vaddr)
	_nonnull_;

/* Symbol @i (below count). */
Elf64_Sym ht_elf_symtab_at(const struct ht_elf_symtab *tab, size_t i) _nonnull_;
/* Its name is @name, which is @len bytes and a NUL. */
bool ht_elf_symtab_is(const struct ht_elf_symtab *tab, const Elf64_Sym *sym,
		      const char *name, size_t len) _nonnull_;
/* Its name where it is in the file: at most *ret_max bytes may be read. */
const char *ht_elf_symtab_name(const struct ht_elf_symtab *tab, const Elf64_Sym *sym,
			       size_t *ret_max) _nonnull_;
/* It is defined here, at an address, and is a function, an object or untyped. */
bool ht_elf_symbol_usable(const Elf64_Sym *sym) _nonnull_;
/* Index of the definition of @name: default version first. -ENOENT. */
int64_t ht_elfdyn_find_dynamic(const struct ht_elfdyn *view, const char *name) _nonnull_;

Elf64_Rela ht_elf_relas_at(const struct ht_elf_relas *relas, size_t i) _nonnull_;

#endif
