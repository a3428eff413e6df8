/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_recording.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "ht_check.h"
#include "unwind/unwind.h"

#define MAX_FRAMES 64

struct site {
	struct ht_frame frames[MAX_FRAMES];
	size_t n;
	enum ht_stack_end end;
	uint32_t label;
	struct ht_figures figures;
};

struct ht_ledger {
	ht_vec(struct site) sites;
	struct ht_figures total;
	struct ht_ledger_counters counters;
};

struct code {
	struct ht_symbol symbols[4];
	size_t n;
	uint32_t module;
};

/* The names are kept once each, as the real ones are. */
struct ht_symbols {
	ht_vec(struct code) codes;
	char *names[256];
	size_t n_names;
	const char *reasons[16];
	const char *jit_reason;
	const char *debuginfod_reason;
	bool bare[16];
};

/* --- what stands in for ledger/, symbol/ and unwind/ -------------------------------- */

void ht_ledger_total(const struct ht_ledger *ledger, struct ht_figures *ret_figures)
{
	*ret_figures = ledger->total;
}

void ht_ledger_counters(const struct ht_ledger *ledger,
			struct ht_ledger_counters *ret_counters)
{
	*ret_counters = ledger->counters;
}

size_t ht_ledger_site_count(const struct ht_ledger *ledger)
{
	return ledger->sites.len;
}

void ht_ledger_site_figures(const struct ht_ledger *ledger, uint32_t site,
			    struct ht_figures *ret_figures)
{
	ck_assert_uint_lt(site, ledger->sites.len);
	*ret_figures = ledger->sites.at[site].figures;
}

void ht_ledger_site_stack(const struct ht_ledger *ledger, uint32_t site,
			  struct ht_stack *ret_stack, uint32_t *ret_label)
{
	const struct site *s = &ledger->sites.at[site];

	ck_assert_uint_lt(site, ledger->sites.len);
	memcpy(ret_stack->frames, s->frames, sizeof(s->frames));
	ret_stack->n_frames = (uint32_t)s->n;
	ret_stack->end = s->end;
	if (ret_label)
		*ret_label = s->label;
}

double ht_bar95(double variance)
{
	return 1.96 * sqrt(variance);
}

double ht_sum_upper(const struct ht_sum *sum, uint64_t interval)
{
	double n = (double)sum->samples;
	double weight = sum->samples ? fmax(sum->bytes / n, (double)interval) : (double)interval;

	return (n + 3 + 2 * sqrt(n)) * weight;
}

int ht_symbols_lookup(struct ht_symbols *symbols, const struct ht_frame *frame,
		      const struct ht_symbol **ret_symbols, size_t *ret_n)
{
	uint64_t i = frame->offset / 16 - 1;

	ck_assert_uint_lt(i, symbols->codes.len);
	ck_assert_uint_eq(symbols->codes.at[i].module, frame->module);
	*ret_symbols = symbols->codes.at[i].symbols;
	*ret_n = symbols->codes.at[i].n;
	return 0;
}

bool ht_symbols_module_bare(struct ht_symbols *symbols, uint32_t module)
{
	return symbols->bare[module];
}

const char *ht_symbols_module_reason(struct ht_symbols *symbols, uint32_t module)
{
	return symbols->reasons[module];
}

const char *ht_symbols_debuginfod_reason(struct ht_symbols *symbols)
{
	return symbols->debuginfod_reason;
}

const char *ht_symbols_jit_reason(struct ht_symbols *symbols)
{
	return symbols->jit_reason;
}

bool ht_symbols_module_text(struct ht_symbols *symbols, uint32_t module,
			    struct ht_symbol_text *ret_text)
{
	(void)symbols;
	*ret_text = (struct ht_symbol_text){ .vaddr = 0, .end = 0x1000000,
					     .fixed = module == 0 };
	return module < 2;
}

const char *ht_stack_end_text(enum ht_stack_end end)
{
	return end == HT_STACK_NO_CFI ? "no unwind data" : "the copied stack was too short";
}

/* --- filling ------------------------------------------------------------------------- */

static const char *keep(struct fake *fake, const char *name)
{
	struct ht_symbols *symbols = fake->symbols;
	struct ht_buf clean = HT_BUF_INIT;
	size_t i;

	if (!name)
		return NULL;
	ck_ok(ht_symbol_clean(name, 4096, &clean));
	for (i = 0; i < symbols->n_names; i++) {
		if (strcmp(symbols->names[i], clean.data ? clean.data : "") == 0) {
			ht_buf_fini(&clean);
			return symbols->names[i];
		}
	}
	ck_assert_uint_lt(i, 256);
	symbols->names[i] = clean.data ? clean.data : strdup("");
	symbols->n_names++;
	return symbols->names[i];
}

void fake_init(struct fake *fake)
{
	*fake = (struct fake){ .ledger = calloc(1, sizeof(struct ht_ledger)),
			       .symbols = calloc(1, sizeof(struct ht_symbols)) };
	ck_assert(fake->ledger && fake->symbols);
	fake->ledger->counters.peak_now = true;
	ck_ok(ht_modules_new(&fake->modules));
	fake_modules_add(fake->modules, "/usr/bin/redis-server", NULL, "\x12\x34\xab");
	fake_modules_add(fake->modules, "/lib/libc.so.6", NULL, "");
	fake_modules_add(fake->modules, "/opt/lib/libplugin.so", NULL, "");
	fake->recording = (struct ht_recording){
		.command = "redis-server", .exe = "/usr/bin/redis-server", .pid = 4242,
		.allocators = "jemalloc 5.3.0", .start_unix_ns = UINT64_C(1700000000000000000),
		.duration_ns = UINT64_C(30000000000),
		.interval = 65536, .samples = 102118, .stops = 2, .stop_max_ns = 1100000,
		.stop_total_ns = 1900000, .threads = 4, .ledger = fake->ledger,
		.modules = fake->modules, .symbols = fake->symbols,
	};
}

void fake_fini(struct fake *fake)
{
	size_t i;

	for (i = 0; i < fake->symbols->n_names; i++)
		free(fake->symbols->names[i]);
	ht_vec_fini(&fake->symbols->codes);
	free(fake->symbols);
	ht_vec_fini(&fake->ledger->sites);
	free(fake->ledger);
	ht_modules_free(fake->modules);
}

struct ht_frame fake_code(struct fake *fake, uint32_t module, const struct ht_symbol *symbols,
			  size_t n)
{
	struct code *code = ht_vec_push(&fake->symbols->codes);
	size_t i;

	ck_assert_ptr_nonnull(code);
	ck_assert_uint_le(n, ARRAY_SIZE(code->symbols));
	code->n = n;
	code->module = module;
	for (i = 0; i < n; i++) {
		code->symbols[i] = symbols[i];
		code->symbols[i].name = keep(fake, symbols[i].name);
		code->symbols[i].linkage_name = keep(fake, symbols[i].linkage_name);
		code->symbols[i].file = keep(fake, symbols[i].file);
	}
	return (struct ht_frame){ 16 * fake->symbols->codes.len, module, 0 };
}

struct ht_frame fake_function(struct fake *fake, uint32_t module, const char *name,
			      const char *file, uint32_t line)
{
	struct ht_symbol symbol = { .name = name, .file = file, .line = line,
				    .decl_line = line > 5 ? line - 5 : 0 };

	return fake_code(fake, module, &symbol, 1);
}

static struct ht_sum make_sum(const struct fake *fake, double bytes, double objects,
			      uint64_t samples)
{
	double n = (double)samples;
	struct ht_sum sum = { bytes, objects, 0, 0, samples };

	if (fake->recording.interval && samples) {
		sum.bytes_variance = bytes * bytes / n;
		sum.objects_variance = objects * objects / n;
	}
	return sum;
}

static void add(struct ht_sum *to, const struct ht_sum *sum)
{
	to->bytes += sum->bytes;
	to->objects += sum->objects;
	to->bytes_variance += sum->bytes_variance;
	to->objects_variance += sum->objects_variance;
	to->samples += sum->samples;
}

uint32_t fake_site(struct fake *fake, const struct ht_frame *frames, size_t n,
		   enum ht_stack_end end, double live_bytes, double live_objects,
		   uint64_t live_samples, double total_factor)
{
	struct site *site = ht_vec_push(&fake->ledger->sites);
	struct ht_figures *total = &fake->ledger->total;

	ck_assert_ptr_nonnull(site);
	ck_assert_uint_le(n, MAX_FRAMES);
	memcpy(site->frames, frames, n * sizeof(*frames));
	site->n = n;
	site->end = end;
	site->figures.live = make_sum(fake, live_bytes, live_objects, live_samples);
	site->figures.peak = site->figures.live;
	site->figures.total = make_sum(fake, live_bytes * total_factor,
				       live_objects * total_factor,
				       (uint64_t)((double)live_samples * total_factor));
	site->figures.freed = make_sum(fake, live_bytes * (total_factor - 1),
				       live_objects * (total_factor - 1),
				       (uint64_t)((double)live_samples * (total_factor - 1)));
	add(&total->live, &site->figures.live);
	add(&total->peak, &site->figures.peak);
	add(&total->total, &site->figures.total);
	add(&total->freed, &site->figures.freed);
	return (uint32_t)(fake->ledger->sites.len - 1);
}

void fake_peak(struct fake *fake, double bytes, double objects, uint64_t samples)
{
	struct ht_ledger *ledger = fake->ledger;
	struct ht_sum *peak = &ledger->sites.at[ledger->sites.len - 1].figures.peak;

	*peak = make_sum(fake, bytes, objects, samples);
	ledger->counters.peak_now = false;
	ledger->total.peak = (struct ht_sum){ 0 };
	for (size_t i = 0; i < ledger->sites.len; i++)
		add(&ledger->total.peak, &ledger->sites.at[i].figures.peak);
}

void fake_label(struct fake *fake, uint32_t label)
{
	fake->ledger->sites.at[fake->ledger->sites.len - 1].label = label;
}

struct ht_ledger_counters *fake_counters(struct fake *fake)
{
	return &fake->ledger->counters;
}

void fake_reason(struct fake *fake, uint32_t module, const char *reason, bool bare)
{
	if (module == HT_MODULE_NONE) {
		fake->symbols->jit_reason = reason;
		return;
	}
	fake->symbols->reasons[module] = reason;
	fake->symbols->bare[module] = bare;
}

/* --- the two recordings -------------------------------------------------------------- */

#define MIB (1024.0 * 1024)

void fake_redis(struct fake *fake)
{
	struct ht_symbol inlined[] = {
		{ .name = "dictAddRaw", .file = "/build/redis/src/dict.c", .line = 301,
		  .decl_line = 290, .inlined = true },
		{ .name = "dictAdd", .linkage_name = "dictAdd",
		  .file = "/build/redis/src/dict.c", .line = 269, .decl_line = 265 } };
	struct ht_frame zmalloc = fake_function(fake, 0, "zmalloc", "/build/redis/src/zmalloc.c",
						101);
	struct ht_frame sds = fake_function(fake, 0, "sdsnewlen", "/build/redis/src/sds.c", 101);
	struct ht_frame dup = fake_function(fake, 0, "sdsnewlen", "/build/redis/src/sds.c", 99);
	struct ht_frame create = fake_function(fake, 0, "createStringObject",
					       "/build/redis/src/object.c", 74);
	struct ht_frame set = fake_function(fake, 0, "setGenericCommand",
					    "/build/redis/src/t_string.c", 88);
	struct ht_frame append = fake_function(fake, 0, "appendCommand",
					       "/build/redis/src/t_string.c", 640);
	struct ht_frame call = fake_function(fake, 0, "call", "/build/redis/src/server.c", 3374);
	struct ht_frame process = fake_function(fake, 0, "processCommand",
						"/build/redis/src/server.c", 4008);
	struct ht_frame read = fake_function(fake, 0, "readQueryFromClient",
					     "/build/redis/src/networking.c", 2651);
	struct ht_frame events = fake_function(fake, 0, "aeProcessEvents",
					       "/build/redis/src/ae.c", 428);
	struct ht_frame mainf = fake_function(fake, 0, "main", "/build/redis/src/server.c",
					      7156);
	struct ht_frame expand = fake_function(fake, 0, "dictExpand", "/build/redis/src/dict.c",
					       188);
	struct ht_frame add_ = fake_code(fake, 0, inlined, 2);
	struct ht_symbol unknown = { .name = "libplugin.so+0x1234", .unknown = true };
	struct ht_frame plugin = fake_code(fake, 2, &unknown, 1);
	struct ht_frame start = fake_function(fake, 1, "__libc_start_call_main", NULL, 0);
	struct ht_frame a[] = { zmalloc, sds, create, set, call, process, read, events, mainf,
				start };
	struct ht_frame b[] = { zmalloc, dup, append, call, process, read, events, mainf, start };
	struct ht_frame c[] = { zmalloc, expand, add_, set, call, process, read, events, mainf,
				start };
	struct ht_frame d[] = { plugin, plugin };
	struct ht_frame e[] = { zmalloc, events, events, events, events, events, mainf };
	double unit = fake->recording.interval ? MIB : MIB + 1;

	fake_site(fake, a, ARRAY_SIZE(a), HT_STACK_COMPLETE, 240 * unit, 1280000, 38400, 12);
	fake_peak(fake, 310 * unit, 1640000, 24800);
	fake_site(fake, b, ARRAY_SIZE(b), HT_STACK_COMPLETE, 61 * unit, 325000, 9760, 12);
	fake_site(fake, c, ARRAY_SIZE(c), HT_STACK_COMPLETE, 64 * unit, 3, 100, 1);
	fake_peak(fake, 96 * unit, 4, 75);
	fake_site(fake, d, ARRAY_SIZE(d), HT_STACK_NO_CFI, 0.25 * unit, 7, 4, 2);
	fake_site(fake, e, ARRAY_SIZE(e), HT_STACK_COMPLETE, 0.125 * unit, 12, 2, 9);
	fake_peak(fake, 0, 0, 0);
	fake->ledger->counters.peak_time_ns = UINT64_C(21400000000);
	fake->ledger->counters.unknown_frees = 18202;
	fake_reason(fake, 2, NULL, true);
}

void fake_hostile(struct fake *fake)
{
	size_t len = 1 << 20;
	char *huge = malloc(len + 1);
	struct ht_frame frames[4];

	memset(huge, 'A', len);
	huge[len] = '\0';
	frames[0] = fake_function(fake, 0, "evil\x1b[2J\r\n;name 77", "/x/\x1b]0;hi\x07.c", 1);
	frames[1] = fake_function(fake, 0, huge, huge, UINT32_MAX);
	frames[2] = fake_function(fake, 0, "\xff\xfe\xc0\xaf<<<((((<", "", 0);
	frames[3] = fake_function(fake, 1, "", "/", 3);
	free(huge);
	fake_site(fake, frames, 4, HT_STACK_WINDOW, 100 * MIB, 100, 1600, 2);
	fake_site(fake, frames + 1, 3, HT_STACK_COMPLETE, 50 * MIB, 100, 800, 2);
	fake_site(fake, frames + 2, 2, HT_STACK_COMPLETE, 40 * MIB, 100, 640, 2);
	fake_site(fake, frames, 0, HT_STACK_NO_CFI, 30 * MIB, 100, 480, 2);
	fake_site(fake, frames, 0, HT_STACK_COMPLETE, 20 * MIB, 100, 320, 2);
	fake->recording.command = "a\nb\x1b[1m";
	fake->recording.exe = "/tmp/\xff\n\x1b[31m";
	fake->recording.ended = "x\ny";
	fake->recording.allocators = NULL;
}
