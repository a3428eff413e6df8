/* SPDX-License-Identifier: Apache-2.0
 *
 * symbol-priv.h: what the files of symbol/ share. Every byte behind these interfaces
 * comes from a file that the target chose: sizes are checked, work is bounded.
 */
#ifndef HT_SYMBOL_SYMBOL_PRIV_H
#define HT_SYMBOL_SYMBOL_PRIV_H

#include <elf.h>
#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/map.h"
#include "base/vec.h"
#include "symbol/symbol.h"

/* Longest name that is shown, and longest that is given to the demanglers. */
#define HT_NAME_SHOWN_MAX 4096
#define HT_NAME_MANGLED_MAX (32 * 1024)
#define HT_NAME_DEMANGLED_MAX (64 * 1024)

/* --- elf.c: a 64-bit little-endian ELF file, in memory or behind an fd -------------- */

/* Either @image (borrowed) or @fd (owned). Reading by fd and never by mmap: somebody who
 * truncates the file meanwhile makes a short read, not a SIGBUS. */
struct ht_elf {
	const uint8_t *image;
	uint64_t len;
	int fd;
	Elf64_Ehdr header;
	Elf64_Shdr *sections;
	size_t n_sections;
	char *names;		/* section names; names[names_len] is NUL */
	size_t names_len;
};

#define HT_ELF_INIT { .fd = -1 }

/* 0, -ENOEXEC (not an ELF file of our kind) or -ENOMEM. Relocatable files pass too: what
 * dwz makes for several programs to share is one. */
int ht_elf_init_image(struct ht_elf *elf, const uint8_t *image, size_t len)
	_must_check_ _nonnull_;
/* Takes @fd in any case. */
int ht_elf_init_fd(struct ht_elf *elf, int fd) _must_check_ _nonnull_;
/* The file of @module, which must outlive @elf. */
int ht_elf_init_module(struct ht_elf *elf, const struct ht_module *module)
	_must_check_ _nonnull_;
void ht_elf_fini(struct ht_elf *elf) _nonnull_;
int ht_elf_read(const struct ht_elf *elf, uint64_t offset, void *data, size_t len)
	_must_check_ _nonnull_;
const char *ht_elf_section_name(const struct ht_elf *elf, size_t i) _nonnull_;
/* NULL: no such section, or one without bytes in the file. */
const Elf64_Shdr *ht_elf_section(const struct ht_elf *elf, const char *name) _nonnull_;
/* Copy a section, NUL behind it. -EFBIG above @max, -EBADMSG when not all of it is there. */
int ht_elf_load(const struct ht_elf *elf, const Elf64_Shdr *section, size_t max,
		uint8_t **ret_data, size_t *ret_len) _must_check_ _nonnull_;
/* The GNU build-id note; 0 when there is none. At most @max bytes. */
size_t ht_elf_build_id(const struct ht_elf *elf, uint8_t *id, size_t max) _nonnull_;
/* The executable part; false if there is none. */
bool ht_elf_text(const struct ht_elf *elf, struct ht_symbol_text *ret_text) _nonnull_;

/* --- xz.c, debugfile.c: the files beside the file ----------------------------------- */

/* .gnu_debugdata, decompressed to at most 64 MiB. -ENOENT, -EBADMSG, -EFBIG, -ENOMEM. */
int ht_debugdata_load(const struct ht_elf *elf, uint8_t **ret_image, size_t *ret_len)
	_must_check_ _nonnull_;

/* Open a regular file, and nothing else: never a FIFO or a device that a hostile name
 * points to. An fd, or negative errno. */
int ht_debugfile_open(const char *path) _must_check_ _nonnull_;
/* The separate debug file of @elf by build-id, then by .gnu_debuglink with its CRC. @path is
 * where the module is. -ENOENT when there is none. */
int ht_debugfile_find(const struct ht_elf *elf, const char *path, const char *dirs,
		      int *ret_fd) _must_check_ _nonnull_;
/* The supplementary file (dwz) that .gnu_debugaltlink names. @ret_fd is -1 when the file has
 * no such section; -ENOENT when it has but the file isn't there. */
int ht_debugfile_find_alt(const struct ht_elf *elf, const char *path, const char *dirs,
			  int *ret_fd) _must_check_ _nonnull_;

/* The .dwp file of a program: "prog.dwp" beside "prog", or beside its debug file, whose path
 * may be NULL. @ret_fd is -1 when there is none. 0 or -ENOMEM. */
int ht_debugfile_find_dwp(const char *path, const char *debug_path, int *ret_fd)
	_must_check_ _nonnull_args_(1, 3);

/* --- path.c ------------------------------------------------------------------------- */

/* Append @file, behind @dir (may be NULL) if it is relative, without "." and "..". 0 or
 * -ENOMEM. */
int ht_path_join(const char *dir, const char *file, struct ht_buf *out)
	_must_check_ _nonnull_args_(2, 3);

/* --- symtab.c ----------------------------------------------------------------------- */

struct ht_symtab;

int ht_symtab_new(struct ht_symtab **ret_symtab) _must_check_ _nonnull_;
struct ht_symtab *ht_symtab_free(struct ht_symtab *symtab);
/* Add the function symbols of @elf's tables. Malformed ones are passed over. */
int ht_symtab_add(struct ht_symtab *symtab, const struct ht_elf *elf)
	_must_check_ _nonnull_;
/* Was there a full table (.symtab), not only the dynamic one? */
bool ht_symtab_full(const struct ht_symtab *symtab) _nonnull_;
/* Sort, choose among equals; once, after the last add. */
void ht_symtab_finish(struct ht_symtab *symtab) _nonnull_;
/* The name of the function at @addr, NULL if none. Lives as long as the table; raw. */
const char *ht_symtab_find(const struct ht_symtab *symtab, uint64_t addr) _nonnull_;

/* --- sections.c: debug sections, unpacked --------------------------------------------- */

/* The reasons why a module has no lines, or no inlined calls, for people. */
#define HT_LINES_ZSTD "its debug sections are compressed with zstd, which this libdw can't read"
#define HT_LINES_LARGE "its debug sections are too large"
#define HT_LINES_ALT "its supplementary debug file (dwz) isn't there"
#define HT_LINES_BAD "its debug sections are malformed"
#define HT_LINES_MEMORY "heaptap is out of memory, or at its limit (ulimit -v)"
#define HT_LINES_SPLIT "inlined calls are in its .dwo or .dwp files, which aren't there"
#define HT_LINES_STALE "its .dwo files with inlined calls are of another build"
#define HT_LINES_DWP "its .dwp file is malformed"

/* Bytes in somebody else's memory. */
struct ht_span {
	const uint8_t *data;
	size_t len;
};

/* Why a call of libelf or libdw failed before which errno was 0: -ENOMEM or -EBADMSG. Their
 * own numbers for that are no part of their interface. */
int ht_sections_failure(void) _must_check_;
/* Is there memory for the debug sections, unpacked, and what libdw makes of them? */
bool ht_sections_fit(const struct ht_elf *elf) _must_check_ _nonnull_;
/* What to say of such a failure. */
const char *ht_sections_reason(int r) _must_check_;

/* NULL, or why libdw can't or shouldn't be given this file. */
const char *ht_sections_objection(const struct ht_elf *elf, Elf *handle)
	_must_check_ _nonnull_;
/* The section of that name, which lives as long as @handle; empty if there is none. -E2BIG
 * above @max, -EOPNOTSUPP for zstd that libelf doesn't know, -EBADMSG. */
int ht_sections_get(Elf *handle, const char *name, size_t max, struct ht_span *ret_span)
	_must_check_ _nonnull_;

/* Where texts of DWARF may be. libdw hands out the places of some without a look whether they end
 * before their section does. */
struct ht_texts {
	struct ht_span at[16];
	size_t n;
};

/* Those of a file, after libdw has unpacked its sections. */
void ht_texts_add(struct ht_texts *texts, Elf *handle) _nonnull_;
/* @text, or NULL if it is nowhere there, or goes on behind its section. */
const char *ht_texts_check(const struct ht_texts *texts, const char *text) _nonnull_args_(1);

/* --- oom.c: libdw out of memory -------------------------------------------------------- */

/* Of each Dwarf, before anything else is done with it; NULL: nothing is done. */
void ht_oom_guard(Dwarf *dwarf);
/* Call @call, which uses guarded ones. False: libdw had no memory in the middle of it, and what
 * @call has by itself is lost, so it should have nothing. Calls may be nested. */
bool ht_oom_try(void (*call)(void *arg), void *arg) _must_check_ _nonnull_args_(1);

/* --- bulk.c: what libdw would make of a file ------------------------------------------- */

/* Add to *sum what libdw reads of @tables (.debug_abbrev) for the units of @info, each its own
 * copy. -E2BIG: too much; -ENOMEM. */
int ht_bulk_add_units(const struct ht_span *info, const struct ht_span *tables, uint64_t *sum)
	_must_check_ _nonnull_;

/* --- dwo.c, dwp.c, skeleton.c, split.c: split DWARF ----------------------------------- */

/* What a unit of split DWARF is made of: the first ones are its own, the last is of the file
 * with its skeleton. */
enum ht_part {
	HT_PART_INFO,
	HT_PART_ABBREV,
	HT_PART_LINE,
	HT_PART_STR,
	HT_PART_STR_OFFSETS,
	HT_PART_RNGLISTS,
	HT_PART_ADDR,
	HT_PARTS,
};
extern const char *const ht_part_names[HT_PARTS];

struct ht_unit_parts {
	struct ht_span at[HT_PARTS];
	struct ht_span ranges;		/* .debug_ranges with the skeletons, up to DWARF 4 */
	uint64_t ranges_base;
	uint64_t base;			/* what addresses in ranges are relative to */
};

struct ht_dwo;
struct ht_dwp;
struct ht_split;
struct ht_skeletons;

/* Takes @fd. What it reads is taken from *budget; @parts live as long as the ht_dwo. */
int ht_dwo_open(int fd, size_t *budget, struct ht_unit_parts *parts, struct ht_dwo **ret_dwo)
	_must_check_ _nonnull_;
struct ht_dwo *ht_dwo_free(struct ht_dwo *dwo);

/* Takes @fd. */
int ht_dwp_new(int fd, struct ht_dwp **ret_dwp) _must_check_ _nonnull_;
struct ht_dwp *ht_dwp_free(struct ht_dwp *dwp);
/* The parts of the unit with this id, which live as long as the ht_dwp. -ENOENT: not there. */
int ht_dwp_unit(struct ht_dwp *dwp, uint64_t id, size_t *budget, struct ht_unit_parts *parts)
	_must_check_ _nonnull_;

/* The unit with this id; what @parts point to must outlive it. -ESTALE: it isn't
 * there. -EBADMSG, -ENOMEM. */
int ht_split_new(const struct ht_unit_parts *parts, uint64_t id, struct ht_split **ret_split)
	_must_check_ _nonnull_;
struct ht_split *ht_split_free(struct ht_split *split);
Dwarf *ht_split_dwarf(const struct ht_split *split) _nonnull_;
Dwarf_Die *ht_split_cu(struct ht_split *split) _nonnull_;
/* Its own texts, beside those of the skeleton's file. */
const struct ht_texts *ht_split_texts(const struct ht_split *split) _nonnull_;
/* Has it a table of files of its own? clang's units use their skeleton's. */
bool ht_split_has_files(const struct ht_split *split) _nonnull_;

/* @elf, the file with the skeletons, is borrowed; @dwp_fd is taken, or -1. 0 or -ENOMEM. */
int ht_skeletons_new(Elf *elf, const char *dir, int dwp_fd, struct ht_skeletons **ret_skeletons)
	_must_check_ _nonnull_args_(1, 4);
/* After the units that were opened. */
struct ht_skeletons *ht_skeletons_free(struct ht_skeletons *skeletons);
/* The unit of the skeleton @die. Negative: it can't be had. */
int ht_skeletons_open(struct ht_skeletons *skeletons, Dwarf_Die *die,
		      struct ht_split **ret_split) _must_check_ _nonnull_;
/* What went wrong first, or NULL. */
const char *ht_skeletons_reason(const struct ht_skeletons *skeletons) _nonnull_;

/* Walk the address ranges of a DIE, which is in @split if that isn't NULL. Begin with zeros;
 * false at the end. */
struct ht_pcs_at {
	uint64_t offset;
	Dwarf_Addr base;
	bool started;
	bool ended;
};
bool ht_pcs_next(const struct ht_split *split, Dwarf_Die *die, struct ht_pcs_at *at,
		    uint64_t *ret_lo, uint64_t *ret_hi) _nonnull_args_(2, 3, 4, 5);

/* --- linetable.c: line number programs ------------------------------------------------- */

/* What such programs are in, and what they refer to. */
struct ht_line_sections {
	struct ht_span line, line_str, str;
};

struct ht_linetable;

/* Run the program at @offset. @dir is the directory of the unit, or NULL; it and @sections must
 * outlive the table. The program's length is taken from *budget: programs that lie over each
 * other are work without end. 0, -EBADMSG, -E2BIG, -ENOMEM. */
int ht_linetable_new(const struct ht_line_sections *sections, uint64_t offset, const char *dir,
		     size_t *budget, struct ht_linetable **ret_table)
	_must_check_ _nonnull_args_(1, 4, 5);
struct ht_linetable *ht_linetable_free(struct ht_linetable *table);
/* False: it says nothing of @addr. *ret_line is 0 for what has no line. */
bool ht_linetable_find(const struct ht_linetable *table, uint64_t addr, uint64_t *ret_file,
		       uint32_t *ret_line) _nonnull_;
/* The path of file @i as the compiler was told, which may be relative to the unit's directory,
 * or NULL. Lives as long as the table. */
const char *ht_linetable_file(struct ht_linetable *table, uint64_t i) _nonnull_;

/* --- dies.c, lines.c: DWARF --------------------------------------------------------- */

/* One function at an address; the names are raw and live as long as the ht_lines. */
struct ht_line {
	const char *name;		/* DW_AT_name, or NULL */
	const char *linkage_name;	/* or NULL */
	const char *file;
	const char *dir;		/* what @file is relative to, or NULL */
	uint32_t line;
	uint32_t decl_line;
	bool inlined;
};

#define HT_LINES_MAX 256

/* Where functions are in one compilation unit. */
struct ht_dies;

/* The unit @cu, of @split if that isn't NULL. @budget: how many DIEs and ranges may still be
 * read in this module; lowered. 0, -ENOMEM, or -E2BIG when it is used up. */
int ht_dies_new(Dwarf_Die *cu, const struct ht_split *split, size_t *budget,
		struct ht_dies **ret_dies) _must_check_ _nonnull_args_(1, 3, 4);
struct ht_dies *ht_dies_free(struct ht_dies *dies);
/* List the functions inside of functions, too. They are few (lambdas), and to find them is
 * most of the work: for when an address is in no other one. */
int ht_dies_add_nested(struct ht_dies *dies, Dwarf_Die *cu, size_t *budget)
	_must_check_ _nonnull_;
/* The function at @addr and the calls inlined there, outermost first. */
size_t ht_dies_chain(const struct ht_dies *dies, Dwarf *dwarf, uint64_t addr,
		     Dwarf_Die *chain, size_t max) _nonnull_;

struct ht_lines;

/* What is beside the file with the lines. */
struct ht_beside {
	int alt_fd;		/* the supplementary file, or -1 */
	int dwp_fd;		/* or -1 */
	const char *dir;	/* where .dwo files may be, or NULL */
};

#define HT_BESIDE_NONE { -1, -1, NULL }

/* @elf must outlive the lines; the fds of @beside are taken. NULL in @ret_lines and a text in
 * @ret_reason (NULL too: simply no debug information). 0 or -ENOMEM. */
int ht_lines_new(const struct ht_elf *elf, const struct ht_beside *beside,
		 struct ht_lines **ret_lines, const char **ret_reason)
	_must_check_ _nonnull_;
struct ht_lines *ht_lines_free(struct ht_lines *lines);
/* Does @elf have debug information at all? */
bool ht_lines_present(const struct ht_elf *elf) _nonnull_;
/* Up to @max functions, innermost first; 0: nothing known. The last has no name when only
 * its line is known. */
size_t ht_lines_lookup(struct ht_lines *lines, uint64_t addr, struct ht_line *ret,
		       size_t max) _nonnull_;
/* What was found missing by now, or NULL. */
const char *ht_lines_reason(const struct ht_lines *lines) _nonnull_;

/* --- strings.c: names, each kept once ----------------------------------------------- */

struct ht_strings {
	struct ht_map by_hash;
	ht_vec(char *) all;
};

void ht_strings_fini(struct ht_strings *strings) _nonnull_;
/* The one copy of @text, or NULL: out of memory. */
const char *ht_strings_intern(struct ht_strings *strings, const char *text) _nonnull_;

#endif
