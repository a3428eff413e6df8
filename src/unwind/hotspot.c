/* SPDX-License-Identifier: Apache-2.0
 *
 * hotspot.c: see hotspot.h.
 *
 *	CodeCache::_heaps -> CodeHeap: memory in segments of a power of two, and a map with a
 *			     byte for each: 0: a block starts here, n: go n segments back,
 *			     255: free
 *	block: HeapBlock, then a CodeBlob: name, size, size of its frame in words; one of a
 *	       method leads to Method -> ConstMethod -> ConstantPool -> names, and to
 *	       the methods that were compiled into it (see struct scopes)
 */
#include "unwind/hotspot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "unwind/elfview.h"

#define LIBJVM "libjvm.so"
#define MAX_ENTRIES 8192
#define MAX_WORD 64		/* names of types and fields that are of interest */
#define MAX_HEAPS 8
#define MAX_LIBJVMS 8	/* files of that name that are looked into */
#define MAX_FRAME (256 * 1024)
#define MAX_HOPS 4096
#define WINDOW 256		/* bytes of a segment map that are read at once */
#define MAX_SYMBOL 1024
#define MAX_SCOPES (16 << 20)	/* bytes of a method's table of them */
#define MAX_INLINED 64
#define FREE_SEGMENT 0xff
#define SLOTS (1 << 12)
/* A moment is 2^26 ns. */
#define MOMENT_SHIFT 26

/* One entry of gHotSpotVMStructs; the same since there are any. */
struct vm_struct {
	uint64_t type, field, type_string;
	uint32_t is_static, padding;
	uint64_t offset, address;
};

/* One of gHotSpotVMTypes. */
struct vm_type {
	uint64_t type, superclass;
	uint32_t is_oop, is_integer, is_unsigned, padding;
	uint64_t size;
};

enum {
	F_HEAPS, F_ARRAY_LEN, F_ARRAY_DATA, F_HEAP_MEMORY, F_HEAP_SEGMAP, F_HEAP_LOG2,
	F_SPACE_LOW, F_SPACE_HIGH, F_INTERPRETER, F_QUEUE_BUFFER, F_QUEUE_LIMIT, F_BLOB_NAME,
	F_BLOB_SIZE, F_BLOB_FRAME, F_NMETHOD_METHOD, F_METHOD_CONST, F_CONST_POOL,
	F_CONST_NAME, F_POOL_HOLDER, F_POOL_LENGTH, F_KLASS_NAME, F_SYMBOL_LENGTH,
	F_SYMBOL_BODY,
	/* Without these, which differ from version to version, methods that were compiled into
	 * others don't show. */
	F_NEEDED, F_VERSION = F_NEEDED, F_PC_OFFSET, F_PC_SCOPE, F_SCOPES_PCS,
	F_CODE_BEGIN, F_SCOPES_DATA, F_SCOPES_END, F_METADATA,
	F_CODE_OFFSET, F_SCOPES_OFFSET, F_IMMUTABLE, F_MUTABLE, F_RELOCATION,
	FIELDS
};

static const struct {
	const char *type, *other, *name;	/* other: what other versions call the type */
} fields[FIELDS] = {
	[F_HEAPS] = { "CodeCache", NULL, "_heaps" },
	[F_ARRAY_LEN] = { "GrowableArrayBase", "GenericGrowableArray", "_len" },
	[F_ARRAY_DATA] = { "GrowableArray<int>", NULL, "_data" },
	[F_HEAP_MEMORY] = { "CodeHeap", NULL, "_memory" },
	[F_HEAP_SEGMAP] = { "CodeHeap", NULL, "_segmap" },
	[F_HEAP_LOG2] = { "CodeHeap", NULL, "_log2_segment_size" },
	[F_SPACE_LOW] = { "VirtualSpace", NULL, "_low" },
	[F_SPACE_HIGH] = { "VirtualSpace", NULL, "_high_boundary" },
	[F_INTERPRETER] = { "AbstractInterpreter", NULL, "_code" },
	[F_QUEUE_BUFFER] = { "StubQueue", NULL, "_stub_buffer" },
	[F_QUEUE_LIMIT] = { "StubQueue", NULL, "_buffer_limit" },
	[F_BLOB_NAME] = { "CodeBlob", NULL, "_name" },
	[F_BLOB_SIZE] = { "CodeBlob", NULL, "_size" },
	[F_BLOB_FRAME] = { "CodeBlob", NULL, "_frame_size" },
	[F_NMETHOD_METHOD] = { "nmethod", "CompiledMethod", "_method" },
	[F_METHOD_CONST] = { "Method", NULL, "_constMethod" },
	[F_CONST_POOL] = { "ConstMethod", NULL, "_constants" },
	[F_CONST_NAME] = { "ConstMethod", NULL, "_name_index" },
	[F_POOL_HOLDER] = { "ConstantPool", NULL, "_pool_holder" },
	[F_POOL_LENGTH] = { "ConstantPool", NULL, "_length" },
	[F_KLASS_NAME] = { "Klass", NULL, "_name" },
	[F_SYMBOL_LENGTH] = { "Symbol", NULL, "_length" },
	[F_SYMBOL_BODY] = { "Symbol", NULL, "_body" },
	[F_VERSION] = { "Abstract_VM_Version", NULL, "_vm_major_version" },
	[F_PC_OFFSET] = { "PcDesc", NULL, "_pc_offset" },
	[F_PC_SCOPE] = { "PcDesc", NULL, "_scope_decode_offset" },
	[F_SCOPES_PCS] = { "nmethod", NULL, "_scopes_pcs_offset" },
	/* Up to version 22. */
	[F_CODE_BEGIN] = { "CodeBlob", NULL, "_code_begin" },
	[F_SCOPES_DATA] = { "nmethod", "CompiledMethod", "_scopes_data_begin" },
	[F_SCOPES_END] = { "nmethod", NULL, "_dependencies_offset" },
	[F_METADATA] = { "nmethod", NULL, "_metadata_offset" },
	/* From version 25 on. */
	[F_CODE_OFFSET] = { "CodeBlob", NULL, "_code_offset" },
	[F_SCOPES_OFFSET] = { "nmethod", NULL, "_scopes_data_offset" },
	[F_IMMUTABLE] = { "nmethod", NULL, "_immutable_data" },
	[F_MUTABLE] = { "CodeBlob", NULL, "_mutable_data" },
	[F_RELOCATION] = { "CodeBlob", NULL, "_relocation_size" },
};

enum { T_BLOCK, T_POOL, T_PC, TYPES };
static const char *const types[TYPES] = { [T_BLOCK] = "HeapBlock", [T_POOL] = "ConstantPool",
					  [T_PC] = "PcDesc" };

struct heap {
	uint64_t low, high;
	uint64_t segmap;
	uint32_t log2;
};

struct slot {
	uint64_t pc;
	uint64_t moment;
	uint32_t bytes;
	uint8_t kind;			/* enum ht_java */
};

struct ht_hotspot {
	const struct ht_space *space;
	int memfd;
	uint64_t generation;		/* of the space, when libjvm was looked for */
	ht_addr_t structs, types;	/* of the pointers to the tables; 0: no JVM is there */
	bool described;
	uint64_t at[FIELDS];		/* offsets, and addresses of static ones */
	bool known[FIELDS];
	uint64_t size[TYPES];
	uint64_t moment;
	uint64_t heaps_moment;
	size_t n_heaps;
	struct heap heaps[MAX_HEAPS];
	uint64_t interpreter, interpreter_end;
	struct slot slots[SLOTS];
};

int ht_hotspot_new(const struct ht_space *space, int memfd, struct ht_hotspot **ret_hotspot)
{
	struct ht_hotspot *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->space = space;
	h->memfd = memfd;
	h->generation = UINT64_MAX;
	h->moment = 1;
	*ret_hotspot = h;
	return 0;
}

struct ht_hotspot *ht_hotspot_free(struct ht_hotspot *hotspot)
{
	free(hotspot);
	return NULL;
}

void ht_hotspot_tick(struct ht_hotspot *h, uint64_t now_ns)
{
	h->moment = (now_ns >> MOMENT_SHIFT) + 1;
}

/* --- reading -------------------------------------------------------------------------------- */

static bool get(const struct ht_hotspot *h, uint64_t addr, void *to, size_t len)
{
	return h->memfd >= 0 && addr && addr <= (uint64_t)INT64_MAX - len &&
	       ht_fd_pread_all(h->memfd, to, len, addr) == 0;
}

static bool get_pointer(const struct ht_hotspot *h, uint64_t addr, uint64_t *ret)
{
	return get(h, addr, ret, sizeof(*ret)) && *ret;
}

static bool get_int(const struct ht_hotspot *h, uint64_t addr, uint32_t *ret)
{
	return get(h, addr, ret, sizeof(*ret));
}

/* A NUL-terminated text shorter than @max; of a longer one its beginning. It may end just
 * before memory that isn't there. */
static bool get_text(const struct ht_hotspot *h, uint64_t addr, char *text, size_t max)
{
	size_t page = 4096 - (addr & 4095), len = ht_min(max - 1, page);

	if (!get(h, addr, text, len))
		return false;
	text[len] = '\0';
	if (len < max - 1 && !memchr(text, '\0', len)) {
		if (!get(h, addr + len, text + len, max - 1 - len))
			return false;
		text[max - 1] = '\0';
	}
	return true;
}

/* --- finding the description ------------------------------------------------------------------ */

static uint64_t symbol_in(const struct ht_elfview *view,
			  const struct ht_elfview_section *symbols, const char *name)
{
	struct ht_elfview_section names;
	size_t len = strlen(name) + 1, i;
	Elf64_Sym sym;

	if (!symbols->data ||
	    !ht_elfview_section(view, symbols->link, &names) || !names.data)
		return 0;
	for (i = 0; i < symbols->len / sizeof(sym); i++) {
		memcpy(&sym, symbols->data + i * sizeof(sym), sizeof(sym));
		if (sym.st_shndx != SHN_UNDEF && sym.st_name < names.len &&
		    names.len - sym.st_name >= len &&
		    memcmp(names.data + sym.st_name, name, len) == 0)
			return sym.st_value;
	}
	return 0;
}

static uint64_t symbol(const struct ht_elfview *view, const char *name)
{
	struct ht_elfview_section section;
	unsigned i;

	/* There is one, but for files that want to cost time. */
	for (i = 0; i < view->n_sections; i++)
		if (ht_elfview_section(view, i, &section) && section.type == SHT_DYNSYM)
			return symbol_in(view, &section, name);
	return 0;
}

static bool take_module(struct ht_hotspot *h, const struct ht_mapping *mapping)
{
	struct ht_elfview view;
	const uint8_t *image;
	uint64_t structs, vm_types;
	size_t len;

	image = ht_module_image(mapping->module, &len);
	if (!image || ht_elfview_open(image, len, &view) < 0)
		return false;
	structs = symbol(&view, "gHotSpotVMStructs");
	vm_types = symbol(&view, "gHotSpotVMTypes");
	if (!structs || !vm_types)
		return false;
	h->structs = structs + mapping->bias;
	h->types = vm_types + mapping->bias;
	return true;
}

static void find_libjvm(struct ht_hotspot *h)
{
	const struct ht_module *last = NULL;
	const struct ht_mapping *mapping;
	unsigned left = MAX_LIBJVMS;
	size_t i;

	h->generation = ht_space_generation(h->space);
	h->structs = h->types = 0;
	for (i = 0; left && (mapping = ht_space_at(h->space, i)); i++) {
		if (!mapping->module || mapping->module == last ||
		    !(mapping->prot & HT_PROT_EXEC) ||
		    strcmp(ht_module_name(mapping->module), LIBJVM) != 0)
			continue;
		if (take_module(h, mapping))
			return;
		/* It may be mapped in very many pieces, and have very many symbols. */
		last = mapping->module;
		left--;
	}
}

static void take_struct(struct ht_hotspot *h, const struct vm_struct *s)
{
	char type[MAX_WORD], name[MAX_WORD];
	size_t i;

	if (!get_text(h, s->type, type, sizeof(type)) ||
	    !get_text(h, s->field, name, sizeof(name)))
		return;
	for (i = 0; i < FIELDS; i++) {
		if (strcmp(fields[i].name, name) ||
		    (strcmp(fields[i].type, type) &&
		     (!fields[i].other || strcmp(fields[i].other, type))))
			continue;
		h->at[i] = s->is_static ? s->address : s->offset;
		h->known[i] = true;
	}
}

static void take_type(struct ht_hotspot *h, const struct vm_type *t)
{
	char type[MAX_WORD];
	size_t i;

	if (!get_text(h, t->type, type, sizeof(type)))
		return;
	for (i = 0; i < TYPES; i++)
		if (!strcmp(types[i], type))
			h->size[i] = t->size;
}

static bool is_static(size_t field)
{
	return field == F_HEAPS || field == F_INTERPRETER || field == F_VERSION;
}

static bool is_plausible(const struct ht_hotspot *h)
{
	size_t i;

	for (i = 0; i < FIELDS; i++)
		if (h->known[i] ? !is_static(i) && h->at[i] > 4096 : i < F_NEEDED)
			return false;
	return h->size[T_BLOCK] && h->size[T_BLOCK] <= 64 && h->size[T_POOL] &&
	       h->size[T_POOL] <= 4096;
}

static bool read_description(struct ht_hotspot *h)
{
	struct vm_struct s;
	struct vm_type t;
	uint64_t at;
	size_t i;

	memset(h->known, 0, sizeof(h->known));
	memset(h->size, 0, sizeof(h->size));
	if (!get_pointer(h, h->structs, &at))
		return false;
	for (i = 0; i < MAX_ENTRIES; i++, at += sizeof(s)) {
		if (!get(h, at, &s, sizeof(s)) || !s.type)
			break;
		take_struct(h, &s);
	}
	if (!get_pointer(h, h->types, &at))
		return false;
	for (i = 0; i < MAX_ENTRIES; i++, at += sizeof(t)) {
		if (!get(h, at, &t, sizeof(t)) || !t.type)
			break;
		take_type(h, &t);
	}
	return is_plausible(h);
}

/* --- where code is ---------------------------------------------------------------------------- */

static bool read_heap(const struct ht_hotspot *h, uint64_t heap, struct heap *ret)
{
	uint64_t memory = heap + h->at[F_HEAP_MEMORY], segmap = heap + h->at[F_HEAP_SEGMAP];

	return get_pointer(h, memory + h->at[F_SPACE_LOW], &ret->low) &&
	       get_pointer(h, memory + h->at[F_SPACE_HIGH], &ret->high) &&
	       get_pointer(h, segmap + h->at[F_SPACE_LOW], &ret->segmap) &&
	       get_int(h, heap + h->at[F_HEAP_LOG2], &ret->log2) && ret->log2 >= 3 &&
	       ret->log2 < 32 && ret->low < ret->high;
}

/* Its initialisation may still be under way. */
static void read_heaps(struct ht_hotspot *h)
{
	uint64_t array, data, heap, queue;
	uint32_t n, i, limit;

	h->heaps_moment = h->moment;
	h->n_heaps = 0;
	h->interpreter = h->interpreter_end = 0;
	if (get_pointer(h, h->at[F_INTERPRETER], &queue) &&
	    get_pointer(h, queue + h->at[F_QUEUE_BUFFER], &h->interpreter) &&
	    get_int(h, queue + h->at[F_QUEUE_LIMIT], &limit))
		h->interpreter_end = h->interpreter + limit;
	if (!get_pointer(h, h->at[F_HEAPS], &array) ||
	    !get_int(h, array + h->at[F_ARRAY_LEN], &n) ||
	    !get_pointer(h, array + h->at[F_ARRAY_DATA], &data))
		return;
	for (i = 0; i < ht_min(n, (uint32_t)MAX_HEAPS); i++)
		if (get_pointer(h, data + 8 * i, &heap) &&
		    read_heap(h, heap, &h->heaps[h->n_heaps]))
			h->n_heaps++;
}

/* Is there a JVM that can be read? */
static bool sync(struct ht_hotspot *h)
{
	if (h->generation != ht_space_generation(h->space)) {
		ht_addr_t before = h->structs;

		find_libjvm(h);
		if (h->structs != before || !h->described)
			h->described = h->structs && read_description(h);
	}
	if (!h->structs || !h->described)
		return false;
	if (h->heaps_moment != h->moment)
		read_heaps(h);
	return true;
}

static const struct heap *heap_of(const struct ht_hotspot *h, uint64_t pc)
{
	size_t i;

	for (i = 0; i < h->n_heaps; i++)
		if (pc >= h->heaps[i].low && pc < h->heaps[i].high)
			return &h->heaps[i];
	return NULL;
}

/* A piece of a segment map: [start, end) of the segments. */
struct window {
	uint64_t start, end;
	uint8_t at[WINDOW];
};

/* What the map says of @segment. A hostile one leads back in hops of one: read what is before
 * it, too. */
static bool get_segment(const struct ht_hotspot *h, const struct heap *heap, uint64_t segment,
			struct window *w, uint8_t *ret_back)
{
	uint64_t n = ht_min(segment + 1, (uint64_t)WINDOW);

	if (segment < w->start || segment >= w->end) {
		w->start = segment + 1 - n;
		w->end = segment + 1;
		if (!get(h, heap->segmap + w->start, w->at, n))
			return false;
	}
	*ret_back = w->at[segment - w->start];
	return true;
}

/* The CodeBlob around @pc; 0: none. */
static uint64_t blob_of(const struct ht_hotspot *h, uint64_t pc)
{
	const struct heap *heap = heap_of(h, pc);
	struct window window;
	uint64_t segment, blob;
	unsigned hops;
	uint8_t back;
	uint32_t size;

	if (!heap)
		return 0;
	segment = (pc - heap->low) >> heap->log2;
	window.start = window.end = 0;
	for (hops = 0; hops < MAX_HOPS; hops++, segment -= back) {
		if (!get_segment(h, heap, segment, &window, &back) || back == FREE_SEGMENT ||
		    back > segment)
			return 0;
		if (!back)
			break;
	}
	blob = heap->low + (segment << heap->log2) + h->size[T_BLOCK];
	if (hops == MAX_HOPS || pc < blob ||
	    !get_int(h, blob + h->at[F_BLOB_SIZE], &size) || pc - blob >= size)
		return 0;
	return blob;
}

static enum ht_java classify(struct ht_hotspot *h, uint64_t pc, uint32_t *ret_bytes)
{
	uint64_t blob;
	uint32_t words;

	if (pc >= h->interpreter && pc < h->interpreter_end)
		return HT_JAVA_INTERPRETED;
	blob = blob_of(h, pc);
	if (!blob || !get_int(h, blob + h->at[F_BLOB_FRAME], &words) || words < 2 ||
	    words > MAX_FRAME / 8)
		return HT_JAVA_NOT;
	*ret_bytes = 8 * words;
	return HT_JAVA_COMPILED;
}

enum ht_java ht_hotspot_find(struct ht_hotspot *h, ht_addr_t pc, uint32_t *ret_bytes)
{
	struct slot *slot = &h->slots[(pc ^ pc >> 12) % SLOTS];

	*ret_bytes = 0;
	if (!sync(h))
		return HT_JAVA_NOT;
	if (slot->pc != pc || slot->moment != h->moment) {
		slot->bytes = 0;
		slot->kind = (uint8_t)classify(h, pc, &slot->bytes);
		slot->pc = pc;
		slot->moment = h->moment;
	}
	*ret_bytes = slot->bytes;
	return (enum ht_java)slot->kind;
}

/* --- names -------------------------------------------------------------------------------------- */

/* Append a Symbol, slashes as dots. */
static int add_symbol(const struct ht_hotspot *h, uint64_t symbol_addr, struct ht_buf *out)
{
	char text[MAX_SYMBOL];
	uint16_t len;
	size_t i;

	if (!get(h, symbol_addr + h->at[F_SYMBOL_LENGTH], &len, sizeof(len)) || !len ||
	    !get(h, symbol_addr + h->at[F_SYMBOL_BODY], text, ht_min(len, MAX_SYMBOL)))
		return -ENOENT;
	len = ht_min(len, MAX_SYMBOL);
	if (memchr(text, '\0', len) || memchr(text, '\n', len))
		return -ENOENT;
	for (i = 0; i < len; i++)
		text[i] = text[i] == '/' ? '.' : text[i];
	return ht_buf_append(out, text, len);
}

static int add_method(const struct ht_hotspot *h, uint64_t method, struct ht_buf *out)
{
	uint64_t constant, pool, holder, class_name, name;
	uint32_t length;
	uint16_t index;
	int r;

	if (!get_pointer(h, method + h->at[F_METHOD_CONST], &constant) ||
	    !get_pointer(h, constant + h->at[F_CONST_POOL], &pool) ||
	    !get(h, constant + h->at[F_CONST_NAME], &index, sizeof(index)) ||
	    !get_int(h, pool + h->at[F_POOL_LENGTH], &length) || !index || index >= length ||
	    !get_pointer(h, pool + h->at[F_POOL_HOLDER], &holder) ||
	    !get_pointer(h, holder + h->at[F_KLASS_NAME], &class_name) ||
	    !get_pointer(h, pool + h->size[T_POOL] + 8 * (uint64_t)index, &name))
		return -ENOENT;
	r = add_symbol(h, class_name, out);
	if (r == 0)
		r = ht_buf_putc(out, '.');
	return r == 0 ? add_symbol(h, name, out) : r;
}

/* --- methods compiled into others ------------------------------------------------------------- */

/*
 * A compiled method has a PcDesc for each call, by the offset of its return address. That leads
 * to a scope: where the scope of the caller is, and a number in the method's list of metadata;
 * and so on out to the method itself, whose scope has no caller. Callers come first, so the way
 * leads backwards.
 */
struct scopes {
	uint64_t code, pcs, pcs_end, data, metadata;
	uint32_t version;
};

static bool get_offset(const struct ht_hotspot *h, uint64_t from, uint64_t addr, uint64_t *ret)
{
	uint32_t offset;

	if (!get_int(h, addr, &offset) || offset > INT32_MAX)
		return false;
	*ret = from + offset;
	return true;
}

static bool find_scopes(const struct ht_hotspot *h, uint64_t blob, struct scopes *ret)
{
	uint64_t immutable, mutable;

	if (!h->known[F_PC_OFFSET] || !h->known[F_PC_SCOPE] || !h->known[F_SCOPES_PCS] ||
	    h->size[T_PC] < 8 || h->size[T_PC] > 64 || !h->known[F_VERSION] ||
	    !get_int(h, h->at[F_VERSION], &ret->version))
		return false;
	if (h->known[F_CODE_BEGIN] && h->known[F_SCOPES_DATA] && h->known[F_SCOPES_END] &&
	    h->known[F_METADATA])
		return get_pointer(h, blob + h->at[F_CODE_BEGIN], &ret->code) &&
		       get_pointer(h, blob + h->at[F_SCOPES_DATA], &ret->data) &&
		       get_offset(h, blob, blob + h->at[F_SCOPES_PCS], &ret->pcs) &&
		       get_offset(h, blob, blob + h->at[F_SCOPES_END], &ret->pcs_end) &&
		       get_offset(h, blob, blob + h->at[F_METADATA], &ret->metadata);
	if (!h->known[F_CODE_OFFSET] || !h->known[F_SCOPES_OFFSET] || !h->known[F_IMMUTABLE] ||
	    !h->known[F_MUTABLE] || !h->known[F_RELOCATION] ||
	    !get_pointer(h, blob + h->at[F_IMMUTABLE], &immutable) ||
	    !get_pointer(h, blob + h->at[F_MUTABLE], &mutable) ||
	    !get_offset(h, blob, blob + h->at[F_CODE_OFFSET], &ret->code) ||
	    !get_offset(h, immutable, blob + h->at[F_SCOPES_PCS], &ret->pcs) ||
	    !get_offset(h, immutable, blob + h->at[F_SCOPES_OFFSET], &ret->data) ||
	    !get_offset(h, mutable, blob + h->at[F_RELOCATION], &ret->metadata))
		return false;
	ret->pcs_end = ret->data;
	return true;
}

/* The scope of the call that returns to @pc. False: that has no description. */
static bool find_scope(const struct ht_hotspot *h, const struct scopes *s, uint64_t pc,
		       uint32_t *ret_scope)
{
	uint64_t size = h->size[T_PC], low = 0, high;
	int64_t want = (int64_t)(pc - s->code);

	if (s->pcs_end < s->pcs || s->pcs_end - s->pcs > MAX_SCOPES)
		return false;
	high = (s->pcs_end - s->pcs) / size;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2, at = s->pcs + middle * size;
		uint32_t offset;

		if (!get_int(h, at + h->at[F_PC_OFFSET], &offset))
			return false;
		if ((int32_t)offset == want)
			return get_int(h, at + h->at[F_PC_SCOPE], ret_scope);
		if ((int32_t)offset < want)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* A number as the scopes have it: up to five digits of 64, the lowest first; the last one is
 * below 192. From version 20 on 1 stands for 0. */
static bool get_number(const struct scopes *s, const uint8_t **at, const uint8_t *end,
		       uint32_t *ret)
{
	const unsigned zero = s->version >= 20;
	uint32_t sum = 0;

	for (unsigned i = 0; i < 5 && *at < end; i++) {
		uint8_t digit = *(*at)++;

		if (digit < zero)
			return false;
		sum += (uint32_t)(digit - zero) << 6 * i;
		if (digit < 192 || i == 4) {
			*ret = sum;
			return true;
		}
	}
	return false;
}

/* From the innermost method out to @outermost. Their number; 0: that isn't where it leads. */
static size_t list_scopes(const struct ht_hotspot *h, const struct scopes *s, uint32_t scope,
			  uint64_t outermost, uint64_t methods[MAX_INLINED])
{
	size_t n = 0;

	while (scope && n < MAX_INLINED) {
		uint8_t bytes[10];
		const uint8_t *at = bytes;
		uint32_t caller, number;

		if (!get(h, s->data + scope, bytes, sizeof(bytes)) ||
		    !get_number(s, &at, bytes + sizeof(bytes), &caller) ||
		    !get_number(s, &at, bytes + sizeof(bytes), &number) ||
		    caller >= scope || !number ||
		    !get_pointer(h, s->metadata + 8 * ((uint64_t)number - 1), &methods[n++]))
			return 0;
		scope = caller;
	}
	return !scope && n && methods[n - 1] == outermost ? n : 0;
}

/* The methods that the code before @pc is of, innermost first; at least @method. */
static size_t list_methods(const struct ht_hotspot *h, uint64_t blob, uint64_t pc,
			   uint64_t method, uint64_t methods[MAX_INLINED])
{
	struct scopes s;
	uint32_t scope;
	size_t n = 0;

	if (find_scopes(h, blob, &s) && find_scope(h, &s, pc, &scope))
		n = list_scopes(h, &s, scope, method, methods);
	if (!n)
		methods[n++] = method;
	return n;
}

static int add_methods(const struct ht_hotspot *h, const uint64_t *methods, size_t n,
		       struct ht_buf *out)
{
	size_t len = out->len;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		r = i ? ht_buf_putc(out, '\n') : 0;
		if (r == 0)
			r = add_method(h, methods[i], out);
	}
	/* Half a name is none. */
	if (r < 0 && out->data) {
		out->len = len;
		out->data[len] = '\0';
	}
	return r;
}

int ht_hotspot_method_name(struct ht_hotspot *h, ht_addr_t method, struct ht_buf *out)
{
	return sync(h) ? add_methods(h, &method, 1, out) : -ENOENT;
}

int ht_hotspot_code_name(struct ht_hotspot *h, ht_addr_t pc, struct ht_buf *out)
{
	uint64_t blob, text, methods[MAX_INLINED], method;
	char name[MAX_WORD];
	size_t len, n;
	int r;

	blob = sync(h) ? blob_of(h, pc) : 0;
	if (!blob || !get_pointer(h, blob + h->at[F_BLOB_NAME], &text) ||
	    !get_text(h, text, name, sizeof(name)) || !*name)
		return -ENOENT;
	/* "nmethod", "native nmethod" */
	len = strlen(name);
	if (len < 7 || strcmp(name + len - 7, "nmethod"))
		return ht_buf_append(out, name, len);
	if (!get_pointer(h, blob + h->at[F_NMETHOD_METHOD], &method))
		return -ENOENT;
	n = list_methods(h, blob, pc + 1, method, methods);
	r = add_methods(h, methods, n, out);
	return r == -ENOENT && n > 1 ? add_methods(h, &method, 1, out) : r;
}
