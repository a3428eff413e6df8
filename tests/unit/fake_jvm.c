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
void fake_jvm_inline(unsigned at, unsigned layout);

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

#define OPTIONAL(type, member, text, field) \
	{ text, field, "optional", 0, offsetof(struct type, member), NULL }
/* An offset from the CodeBlob. */
#define NMETHOD(member, text, field) \
	{ text, field, "optional", 0, offsetof(struct fake_blob, member) - 16, NULL }

static const struct fake_struct both[] = {
	{ "Abstract_VM_Version", "_vm_major_version", "optional", 1, 0, &jvm.version },
	OPTIONAL(fake_pc, offset, "PcDesc", "_pc_offset"),
	OPTIONAL(fake_pc, scope, "PcDesc", "_scope_decode_offset"),
	NMETHOD(pcs_offset, "nmethod", "_scopes_pcs_offset"),
}, old[] = {
	NMETHOD(code_begin, "CodeBlob", "_code_begin"),
	NMETHOD(scopes_data, "CompiledMethod", "_scopes_data_begin"),
	NMETHOD(end_offset, "nmethod", "_dependencies_offset"),
	NMETHOD(metadata_offset, "nmethod", "_metadata_offset"),
}, new[] = {
	NMETHOD(code_offset, "CodeBlob", "_code_offset"),
	NMETHOD(scopes_offset, "nmethod", "_scopes_data_offset"),
	NMETHOD(immutable, "nmethod", "_immutable_data"),
	NMETHOD(mutable, "CodeBlob", "_mutable_data"),
	NMETHOD(relocation_size, "CodeBlob", "_relocation_size"),
};

static const struct fake_type types[] = {
	{ "HeapBlock", NULL, 0, 0, 0, 16 },
	{ "ConstantPool", NULL, 0, 0, 0, offsetof(struct fake_pool, entries) },
	{ "PcDesc", NULL, 0, 0, 0, sizeof(struct fake_pc) },
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
	set_symbol(&jvm.inlined_name, "inlined");
	jvm.klass.name = &jvm.class_name;
	jvm.pool = (struct fake_pool){ .holder = &jvm.klass, .length = 4,
				       .entries = { [2] = &jvm.method_name,
						    [3] = &jvm.inlined_name } };
	jvm.constant = (struct fake_const){ .constants = &jvm.pool, .name_index = 2 };
	jvm.method.constant = &jvm.constant;
	jvm.inlined_constant = (struct fake_const){ .constants = &jvm.pool, .name_index = 3 };
	jvm.inlined_method.constant = &jvm.inlined_constant;
	jvm.scopes = (struct fake_scopes *)(code + FAKE_SCOPES * FAKE_SEGMENT);
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
	struct fake_blob blob = { .header = { n, 1 }, .name = name,
				  .size = (int32_t)(n * FAKE_SEGMENT - 16),
				  .frame_size = frame_words, .method = method };

	memcpy(jvm.heap.memory.low + at * FAKE_SEGMENT, &blob, sizeof(blob));
	/* As HotSpot does: not more than 254 back at once. */
	for (unsigned i = 0; i < n; i++)
		jvm.segmap[at + i] = (uint8_t)(i % 254 ? i % 254 : i ? 254 : 0);
}

static void describe(const struct fake_struct *fields, size_t n)
{
	struct fake_struct *at = jvm.structs;

	while (at->type && at->field != fields->field)
		at++;
	memcpy(at, fields, n * sizeof(*fields));
}

#define DESCRIBE(fields) describe(fields, sizeof(fields) / sizeof((fields)[0]))

static int32_t distance(const void *from, const void *to)
{
	return (int32_t)((const uint8_t *)to - (const uint8_t *)from);
}

void fake_jvm_inline(unsigned at, unsigned layout)
{
	struct fake_scopes *scopes = jvm.scopes;
	uint8_t *segment = jvm.heap.memory.low + at * FAKE_SEGMENT, *header = segment + 16;
	struct fake_blob *blob = (struct fake_blob *)segment;
	/* 0 can't be in the newer versions' numbers. */
	uint8_t zero = layout == 17 ? 0 : 1;

	memset(scopes, 0, sizeof(*scopes));
	/* Each: where the caller's is, the method's number. */
	scopes->data[1] = zero + 0;
	scopes->data[2] = zero + 1;
	scopes->data[3] = zero + 1;
	scopes->data[4] = zero + 2;
	scopes->data[5] = zero + 3;
	scopes->data[6] = zero + 3;
	scopes->pcs[0] = (struct fake_pc){ -1, 0, 0, 0 };
	scopes->pcs[1] = (struct fake_pc){ 100 - FAKE_CODE + 1, 5, 0, 0 };
	scopes->pcs[2] = (struct fake_pc){ 102 - FAKE_CODE + 1, 3, 0, 0 };
	scopes->pcs[3] = (struct fake_pc){ 104 - FAKE_CODE + 1, 1, 0, 0 };
	scopes->pcs[4] = (struct fake_pc){ 1000, 0, 0, 0 };
	scopes->metadata[0] = &jvm.method;
	scopes->metadata[1] = &jvm.inlined_method;
	scopes->metadata[2] = &jvm.method;
	jvm.version = (int32_t)layout;
	DESCRIBE(both);
	if (layout == 25) {
		DESCRIBE(new);
		blob->immutable = (uint8_t *)scopes;
		blob->mutable = (uint8_t *)scopes->metadata - 24;
		blob->relocation_size = 24;
		blob->code_offset = distance(header, segment + FAKE_CODE);
		blob->pcs_offset = distance(scopes, scopes->pcs);
		/* Behind the pcs there. */
		memcpy(scopes + 1, scopes->data, sizeof(scopes->data));
		blob->scopes_offset = distance(scopes, scopes + 1);
		return;
	}
	DESCRIBE(old);
	blob->code_begin = segment + FAKE_CODE;
	blob->scopes_data = scopes->data;
	blob->metadata_offset = distance(header, scopes->metadata);
	blob->pcs_offset = distance(header, scopes->pcs);
	blob->end_offset = distance(header, scopes->pcs + 5);
}
