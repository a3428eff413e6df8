/* SPDX-License-Identifier: Apache-2.0
 *
 * jit-priv.h: what the files behind jit.h share. Every byte that they read was written by
 * the target, or by whoever may write where it does.
 */
#ifndef HT_SYMBOL_JIT_PRIV_H
#define HT_SYMBOL_JIT_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/compiler.h"
#include "base/map.h"
#include "base/vec.h"
#include "symbol/jit.h"
#include "symbol/symbol-priv.h"

/* --- ranges.c: named ranges of addresses, of which a newer one hides what it covers ---- */

#define HT_RANGES_MAX (1 << 20)
#define HT_RANGES_NAMES_MAX ((size_t)64 << 20)

struct ht_range {
	uint64_t start, end;
	uint32_t name;		/* in names */
};

/* A part of a range that no newer one covers. */
struct ht_range_piece {
	uint64_t start, end;
	uint32_t range;
};

struct ht_ranges {
	ht_vec(struct ht_range) all;		/* oldest first */
	struct ht_buf names;
	ht_vec(struct ht_range_piece) pieces;	/* by address, without overlaps */
	size_t n_indexed;	/* how many of all the pieces were made of */
};

void ht_ranges_fini(struct ht_ranges *ranges) _nonnull_;
void ht_ranges_clear(struct ht_ranges *ranges) _nonnull_;
/* @name has @len bytes, no NUL among them. 0, -EINVAL (it is empty, or too far up), -ENOSPC
 * (too many) or -ENOMEM. */
int ht_ranges_add(struct ht_ranges *ranges, uint64_t start, uint64_t size, const char *name,
		  size_t len) _must_check_ _nonnull_;
/* After adding, before finding. 0 or -ENOMEM. */
int ht_ranges_index(struct ht_ranges *ranges) _must_check_ _nonnull_;
/* NULL: none. Good until the next addition. */
const char *ht_ranges_find(const struct ht_ranges *ranges, uint64_t addr) _nonnull_;

/* --- perfmap.c: lines "START SIZE NAME", as perf reads them ---------------------------- */

/* What is longer is cut. */
#define HT_PERFMAP_LINE_MAX 4096

struct ht_perfmap {
	struct ht_ranges ranges;
	char line[HT_PERFMAP_LINE_MAX];	/* the beginning of one whose end wasn't read yet */
	size_t len;
	bool skipping;		/* up to the end of the line */
	bool full;		/* there was no room for all */
};

void ht_perfmap_fini(struct ht_perfmap *map) _nonnull_;
/* Forget all. @skipping: what comes next begins in the middle of a line. */
void ht_perfmap_restart(struct ht_perfmap *map, bool skipping) _nonnull_;
/* Take the next bytes of the file; lines without sense are passed over, and one whose end
 * isn't there yet waits for it. 0 or -ENOMEM. */
int ht_perfmap_add(struct ht_perfmap *map, const char *text, size_t len) _must_check_ _nonnull_;

/* --- mapfile.c: the target's own /tmp/perf-PID.map -------------------------------------- */

/* At most so much of a file is looked at: the end of one that is longer. */
#define HT_MAPFILE_MAX (UINT64_C(64) << 20)
#define HT_MAPFILE_CHECK 256

struct ht_mapfile {
	int procfd;		/* borrowed */
	int tmpfd;		/* its /tmp */
	int fd;
	dev_t dev;
	ino_t ino;
	uint64_t start;		/* what was taken in is [start, offset) of the file */
	uint64_t offset;
	struct timespec mtime;	/* at the last look */
	char check[HT_MAPFILE_CHECK];	/* the last bytes before offset */
	pid_t pid;		/* as the target knows itself */
	uid_t uid;
	struct timespec began;	/* when the target did */
	char name[32];		/* "perf-1.map" */
	char reason[96];	/* "": none */
	struct ht_perfmap map;
};

/* Can't fail: what isn't there may come. */
void ht_mapfile_init(struct ht_mapfile *file, int procfd, uint64_t start_ticks) _nonnull_;
void ht_mapfile_fini(struct ht_mapfile *file) _nonnull_;
/* Take in what came since, at most some MiB. 1: there is more; 0; or -ENOMEM. Whatever is wrong
 * with the file is in reason. */
int ht_mapfile_read(struct ht_mapfile *file) _must_check_ _nonnull_;

/* --- gdbjit.c: the list of ELF files behind __jit_debug_descriptor ----------------------- */

#define HT_GDBJIT_ENTRIES_MAX 65536
#define HT_GDBJIT_FILE_MAX ((size_t)16 << 20)
#define HT_GDBJIT_ALL_MAX ((uint64_t)256 << 20)
#define HT_GDBJIT_SEARCH_MAX ((uint64_t)4 << 30)	/* bytes of modules' tables, in all */

struct ht_gdbjit_file {
	uint64_t hash;		/* of what the entry said */
	struct ht_module *module;	/* in the space; NULL: it told nothing for unwinding */
	unsigned round;		/* the last walk that came by */
};

struct ht_gdbjit {
	int memfd;		/* borrowed */
	struct ht_space *space;
	uint64_t generation;	/* of the space, when modules were looked through */
	struct ht_map searched;		/* module -> address of its descriptor in the file, or 0 */
	uint64_t search_bytes;		/* read for that so far */
	ht_vec(ht_addr_t) descriptors;
	struct ht_map known;	/* entries: their numbers in files */
	ht_vec(struct ht_gdbjit_file) files;
	unsigned round;
	uint64_t bytes;		/* read of files so far */
	struct ht_ranges ranges;
};

void ht_gdbjit_init(struct ht_gdbjit *gdb, int memfd, struct ht_space *space) _nonnull_;
void ht_gdbjit_fini(struct ht_gdbjit *gdb) _nonnull_;
/* Take in what was registered since: names, and unwind data for the space, which is taken out
 * of it when it is registered no more. 0 or -ENOMEM. */
int ht_gdbjit_read(struct ht_gdbjit *gdb) _must_check_ _nonnull_;

/* --- jitobject.c: an object file as the program file that it became ------------------------- */

/* Of @image (borrowed), a relocatable file whose sections have addresses: a malloced file with
 * segments, whose unwind data is relocated. 0, -ENOENT (it has none), -ENOMEM. */
int ht_jit_link(const uint8_t *image, size_t len, uint8_t **ret_image, size_t *ret_len)
	_must_check_ _nonnull_;

/* --- jitform.c: names with a file in them -------------------------------------------------- */

/* Parts of the name that was parsed; file may be NULL. */
struct ht_jit_parts {
	const char *name, *file;
	size_t name_len, file_len;
	uint32_t line;		/* where the function starts, 0: unknown */
};

void ht_jit_parse(const char *name, struct ht_jit_parts *ret_parts) _nonnull_;

/* --- jitname.c: the addresses that were seen ---------------------------------------------- */

struct ht_jit_name {
	const char *text;
	const char *kind;
};

struct ht_jit_nameless {
	uint64_t addr;
	bool method;		/* no code: HT_FRAME_METHOD */
};

struct ht_jit {
	struct ht_mapfile file;
	struct ht_gdbjit gdb;
	struct ht_hotspot *hotspot;
	struct ht_strings strings;
	ht_vec(struct ht_jit_name) names;
	struct ht_map seen;		/* address -> number of its name + 1; 0: none yet */
	ht_vec(struct ht_jit_nameless) nameless;	/* those of seen that have none */
	size_t tried;			/* so many of them, by the last look */
	uint64_t next_ns;
};

/* @kind lives for ever. */
int ht_jit_give_name(struct ht_jit *jit, uint64_t addr, const char *name, const char *kind)
	_must_check_ _nonnull_;

#endif
