/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "fake_jvm.h"

static struct fake_jvm jvm;
struct fake_struct *gHotSpotVMStructs = jvm.structs;
struct fake_type *gHotSpotVMTypes = jvm.types;

struct fake_jvm *fake_jvm_make(uint8_t *code);
void fake_jvm_add(unsigned at, unsigned n, const char *name, int32_t frame_words,
		  struct fake_method *method);

#define FIELD(type, member, text, field) { text, field, "", 0, offsetof(struct type, member), NULL }

static const struct fake_struct structs[] = {
	{ "CodeCache", "_heaps", "", 1, 0, &jvm.array_pointer },
	{ "AbstractInterpreter", "_code", "", 1, 0, &jvm.queue_pointer },
	FIELD(fake_array, len, "GrowableArrayBase", "_len"),
	FIELD(fake_array, data, "GrowableArray<int>", "_data"),
	FIELD(fake_heap, memory, "CodeHeap", "_memory"),
	FIELD(fake_heap, segmap, "CodeHeap", "_segmap"),
	FIELD(fake_heap, log2, "CodeHeap", "_log2_segment_size"),
	FIELD(fake_space, low, "VirtualSpace", "_low"),
	FIELD(fake_space, high_boundary, "VirtualSpace", "_high_boundary"),
	FIELD(fake_queue, buffer, "StubQueue", "_stub_buffer"),
	FIELD(fake_queue, limit, "StubQueue", "_buffer_limit"),
	/* Offsets from the CodeBlob, which comes behind the HeapBlock. */
	{ "CodeBlob", "_name", "", 0, offsetof(struct fake_blob, name) - 16, NULL },
	{ "CodeBlob", "_size", "", 0, offsetof(struct fake_blob, size) - 16, NULL },
	{ "CodeBlob", "_frame_size", "", 0, offsetof(struct fake_blob, frame_size) - 16, NULL },
	{ "CompiledMethod", "_method", "", 0, offsetof(struct fake_blob, method) - 16, NULL },
	FIELD(fake_method, constant, "Method", "_constMethod"),
	FIELD(fake_const, constants, "ConstMethod", "_constants"),
	FIELD(fake_const, name_index, "ConstMethod", "_name_index"),
	FIELD(fake_pool, holder, "ConstantPool", "_pool_holder"),
	FIELD(fake_pool, length, "ConstantPool", "_length"),
	FIELD(fake_klass, name, "Klass", "_name"),
	FIELD(fake_symbol, length, "Symbol", "_length"),
	FIELD(fake_symbol, body, "Symbol", "_body"),
	{ "Other", "_heaps", "", 1, 0, NULL },
};

static const struct fake_type types[] = {
	{ "HeapBlock", NULL, 0, 0, 0, 16 },
	{ "ConstantPool", NULL, 0, 0, 0, offsetof(struct fake_pool, entries) },
};

static void set_symbol(struct fake_symbol *symbol, const char *text)
{
	symbol->length = (uint16_t)strlen(text);
	memcpy(symbol->body, text, symbol->length);
}

struct fake_jvm *fake_jvm_make(uint8_t *code)
{
	size_t len = FAKE_SEGMENT * FAKE_SEGMENTS;

	memset(&jvm, 0, sizeof(jvm));
	memset(code, 0xcc, len);
	memset(jvm.segmap, 0xff, sizeof(jvm.segmap));
	set_symbol(&jvm.class_name, "made/up/Klass");
	set_symbol(&jvm.method_name, "work");
	jvm.klass.name = &jvm.class_name;
	jvm.pool = (struct fake_pool){ .holder = &jvm.klass, .length = 4,
				       .entries = { [2] = &jvm.method_name } };
	jvm.constant = (struct fake_const){ .constants = &jvm.pool, .name_index = 2 };
	jvm.method.constant = &jvm.constant;
	jvm.heap.memory = (struct fake_space){ code, code + len, code, code + len };
	jvm.heap.segmap.low = jvm.segmap;
	jvm.heap.segmap.high_boundary = jvm.segmap + sizeof(jvm.segmap);
	jvm.heap.log2 = 7;
	jvm.heaps[0] = &jvm.heap;
	jvm.array = (struct fake_array){ 1, 1, jvm.heaps };
	jvm.array_pointer = &jvm.array;
	jvm.queue.buffer = code + FAKE_INTERPRETER * FAKE_SEGMENT;
	jvm.queue.limit = FAKE_INTERPRETER_LEN * FAKE_SEGMENT;
	jvm.queue_pointer = &jvm.queue;
	memcpy(jvm.structs, structs, sizeof(structs));
	memcpy(jvm.types, types, sizeof(types));
	return &jvm;
}

void fake_jvm_add(unsigned at, unsigned n, const char *name, int32_t frame_words,
		  struct fake_method *method)
{
	struct fake_blob blob = { { n, 1 }, name, (int32_t)(n * FAKE_SEGMENT - 16), frame_words,
				  method };

	memcpy(jvm.heap.memory.low + at * FAKE_SEGMENT, &blob, sizeof(blob));
	/* As HotSpot does: not more than 254 back at once. */
	for (unsigned i = 0; i < n; i++)
		jvm.segmap[at + i] = (uint8_t)(i % 254 ? i % 254 : i ? 254 : 0);
}
