/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_jvm.h: what a HotSpot JVM has in its memory: code in segments, methods, names, and the
 * description of all that. fake_jvm.c is built as a libjvm.so of its own, which tests load.
 */
#ifndef HT_TESTS_UNIT_FAKE_JVM_H
#define HT_TESTS_UNIT_FAKE_JVM_H

#include <stdint.h>

#define FAKE_SEGMENT 128
#define FAKE_SEGMENTS 1024
#define FAKE_INTERPRETER 16	/* its first segment, and how many there are */
#define FAKE_INTERPRETER_LEN 8
#define FAKE_SCOPES 50
#define FAKE_CODE 64		/* where the code of a method begins in it, that has scopes */

struct fake_struct {
	const char *type, *field, *type_string;
	int32_t is_static;
	uint64_t offset;
	void *address;
};

struct fake_type {
	const char *type, *superclass;
	int32_t is_oop, is_integer, is_unsigned;
	uint64_t size;
};

struct fake_symbol {
	uint32_t hash;
	uint16_t length;
	char body[58];
};

struct fake_klass {
	uint64_t vtable;
	struct fake_symbol *name;
};

struct fake_pool {
	uint64_t vtable;
	struct fake_klass *holder;
	int32_t length, padding;
	struct fake_symbol *entries[4];
};

struct fake_const {
	uint64_t fingerprint;
	struct fake_pool *constants;
	uint16_t name_index;
};

struct fake_method {
	uint64_t vtable;
	struct fake_const *constant;
};

struct fake_blob {
	uint64_t header[2];	/* HeapBlock */
	const char *name;
	int32_t size, frame_size;
	struct fake_method *method;
	uint8_t *code_begin, *scopes_data;	/* up to version 22 */
	int32_t metadata_offset, end_offset;
	int32_t pcs_offset;			/* from the blob, or from the immutable data */
	int32_t code_offset, scopes_offset, relocation_size;	/* from version 25 on */
	uint8_t *immutable, *mutable;
};

struct fake_pc {
	int32_t offset, scope, object, flags;
};

/* Of the methods that were compiled into another. */
struct fake_scopes {
	uint8_t data[32];
	struct fake_method *metadata[3];
	struct fake_pc pcs[5];
};

struct fake_space {
	uint8_t *low_boundary, *high_boundary, *low, *high;
};

struct fake_heap {
	uint64_t vtable;
	struct fake_space memory, segmap;
	int32_t log2;
};

struct fake_array {
	int32_t len, max;
	struct fake_heap **data;
};

struct fake_queue {
	uint64_t vtable;
	uint8_t *buffer;
	int32_t limit;
};

/* All that may be changed, in one place. */
struct fake_jvm {
	struct fake_symbol class_name, method_name, inlined_name;
	struct fake_klass klass;
	struct fake_pool pool;
	struct fake_const constant, inlined_constant;
	struct fake_method method, inlined_method;
	int32_t version;
	struct fake_scopes *scopes;	/* in segment FAKE_SCOPES */
	struct fake_heap heap;
	struct fake_heap *heaps[1];
	struct fake_array array;
	struct fake_array *array_pointer;
	struct fake_queue queue;
	struct fake_queue *queue_pointer;
	uint8_t segmap[FAKE_SEGMENTS];
	struct fake_struct structs[48];
	struct fake_type types[5];
};

/* Make it anew. @code: FAKE_SEGMENTS of FAKE_SEGMENT bytes. */
typedef struct fake_jvm *(*fake_jvm_make_fn)(uint8_t *code);
/* Put a blob of @n segments to segment @at; the code begins behind the struct. */
typedef void (*fake_jvm_add_fn)(unsigned at, unsigned n, const char *name, int32_t frame_words,
				struct fake_method *method);
/* The nmethod at @segment has scopes: work() has inlined(), which has work(). @layout: of
 * version 17, 21 or 25. */
typedef void (*fake_jvm_inline_fn)(unsigned segment, unsigned layout);

#endif
