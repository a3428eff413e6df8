/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c: the recording options, the same for every command that records.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/record.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)
#define TIB (GIB * 1024)

#define MAX_DURATION_S (10.0 * 366 * 86400)
#define MAX_BLOCK_US UINT64_C(10000000)

static int bad(struct ht_err *err, const char *option, const char *value, const char *want)
{
	return ht_err_set(err, HT_ERR_USAGE, -EINVAL, "%s: \"%s\" is not %s", option, value,
			  want);
}

/* Digits only: strtoull(3) would take signs and spaces too. ULLONG_MAX when there are too
 * many of them. */
static bool parse_digits(const char *text, uint64_t *ret_n, const char **ret_end)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	*ret_n = strtoull(text, &end, 10);
	*ret_end = end;
	return true;
}

static int parse_bytes(const char *option, const char *value, uint64_t min, uint64_t max,
		       const char *range, uint64_t *ret_bytes, struct ht_err *err)
{
	static const char suffixes[] = "KMGT";
	const char *want = "a number of bytes; K, M or G may follow it", *end, *suffix;
	unsigned shift = 0;
	uint64_t n;

	if (!parse_digits(value, &n, &end))
		return bad(err, option, value, want);
	if (*end) {
		suffix = strchr(suffixes, toupper((unsigned char)*end));
		if (!suffix)
			return bad(err, option, value, want);
		shift = 10 * (unsigned)(suffix - suffixes + 1);
		end++;
		if (!strcmp(end, "iB") || !strcmp(end, "B"))
			end += strlen(end);
		if (*end)
			return bad(err, option, value, want);
	}
	if (n > (max >> shift) || n << shift < min)
		return ht_err_set(err, HT_ERR_USAGE, -ERANGE, "%s: \"%s\" is out of range, %s",
				  option, value, range);
	*ret_bytes = n << shift;
	return 0;
}

static int set_interval(void *data, const char *value, struct ht_err *err)
{
	struct ht_record_options *o = data;

	return parse_bytes("--interval", value, 0, TIB, "which is 0 (exact) to 1T",
			   &o->tap.interval, err);
}

static int set_duration(void *data, const char *value, struct ht_err *err)
{
	struct ht_record_options *o = data;
	double seconds;
	char *end;

	/* strtod(3) alone would take "nan", "inf" and hexadecimals. */
	if (value[strspn(value, "0123456789.")] || !strpbrk(value, "0123456789"))
		return bad(err, "--duration", value, "a number of seconds");
	seconds = strtod(value, &end);
	if (*end)
		return bad(err, "--duration", value, "a number of seconds");
	if (seconds < 0.001 || seconds > MAX_DURATION_S)
		return ht_err_set(err, HT_ERR_USAGE, -ERANGE,
				  "--duration: \"%s\" is out of range, which is 0.001 s to 10 years",
				  value);
	o->duration_ns = (uint64_t)(seconds * (double)HT_NS_PER_SEC);
	return 0;
}

static int set_output(void *data, const char *value, struct ht_err *err)
{
	struct ht_record_options *o = data;

	if (!*value)
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL, "--output: the name is empty");
	if (o->n_paths == HT_OUTPUTS_MAX)
		return ht_err_set(err, HT_ERR_USAGE, -E2BIG,
				  "--output: more than %d files", HT_OUTPUTS_MAX);
	for (size_t i = 0; i < o->n_paths; i++)
		if (!strcmp(o->paths[i], value))
			return ht_err_set(err, HT_ERR_USAGE, -EEXIST,
					  "--output: \"%s\" is given twice", value);
	o->paths[o->n_paths++] = value;
	return 0;
}

static int set_format(void *data, const char *value, struct ht_err *err)
{
	struct ht_record_options *o = data;
	char known[256] = "";
	size_t len = 0;

	o->format = ht_report_format_by_name(value);
	if (o->format)
		return 0;
	for (size_t i = 0; ht_report_formats[i] && len < sizeof(known); i++)
		len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s",
					i ? ", " : "", ht_report_formats[i]->name);
	return ht_err_set(err, HT_ERR_USAGE, -EINVAL,
			  "--format: there is no format \"%s\", only %s", value, known);
}

static int set_min_size(void *data, const char *value, struct ht_err *err)
{
	struct ht_record_options *o = data;

	return parse_bytes("--min-size", value, 1, TIB, "which is 1 to 1T",
			   &o->tap.min_size, err);
}

static int set_ring_size(void *data, const char *value, struct ht_err *err)
{
	struct ht_record_options *o = data;
	int r = parse_bytes("--ring-size", value, 64 * KIB, GIB, "which is 64K to 1G",
			    &o->tap.ring_size, err);

	if (r < 0)
		return r;
	if (o->tap.ring_size & (o->tap.ring_size - 1))
		return bad(err, "--ring-size", value, "a power of two");
	return 0;
}

static int set_block(void *data, const char *value, struct ht_err *err)
{
	struct ht_record_options *o = data;
	const char *end;
	uint64_t us;

	o->tap.block = true;
	o->tap.block_us = 0;
	if (!value)
		return 0;
	if (!parse_digits(value, &us, &end) || *end)
		return bad(err, "--block", value, "a number of microseconds");
	if (us < 1 || us > MAX_BLOCK_US)
		return ht_err_set(err, HT_ERR_USAGE, -ERANGE,
				  "--block: \"%s\" is out of range, which is 1 to 10000000 microseconds",
				  value);
	o->tap.block_us = us;
	return 0;
}

static int set_max_stack(void *data, const char *value, struct ht_err *err)
{
	struct ht_record_options *o = data;

	return parse_bytes("--max-stack", value, KIB, 8 * MIB, "which is 1K to 8M",
			   &o->tap.max_stack, err);
}

static int set_loader(void *data, const char *value, struct ht_err *err)
{
	static const char *const names[] = {
		[HT_LOADER_AUTO] = "auto",
		[HT_LOADER_DLOPEN] = "dlopen",
		[HT_LOADER_MAP] = "map",
	};
	struct ht_record_options *o = data;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strcmp(value, names[i])) {
			o->tap.loader = (enum ht_loader)i;
			return 0;
		}
	}
	return bad(err, "--loader", value, "auto, dlopen or map");
}

static int set_transport(void *data, const char *value, struct ht_err *err)
{
	static const char *const names[] = {
		[HT_TRANSPORT_RING] = "ring",
		[HT_TRANSPORT_SOCKET] = "socket",
	};
	struct ht_record_options *o = data;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strcmp(value, names[i])) {
			o->tap.transport = (enum ht_transport)i;
			return 0;
		}
	}
	return bad(err, "--transport", value, "ring or socket");
}

static int set_debuginfod(void *data, const char *value, struct ht_err *err)
{
	struct ht_record_options *o = data;

	if (value && !*value)
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL, "--debuginfod: no server is named");
	o->debuginfod = true;
	o->debuginfod_urls = value;
	return 0;
}

static int set_limit(void *data, const char *value, struct ht_err *err)
{
	struct ht_record_options *o = data;
	const char *end;
	uint64_t n;

	if (!strcmp(value, "all")) {
		o->limit = UINT_MAX;
		return 0;
	}
	if (!parse_digits(value, &n, &end) || *end || n < 1 || n >= UINT_MAX)
		return bad(err, "--limit", value, "a number from 1 on or \"all\"");
	o->limit = (unsigned)n;
	return 0;
}

static int set_progress(void *data, const char *value, struct ht_err *err)
{
	struct ht_record_options *o = data;

	if (strcmp(value, "auto") && strcmp(value, "never"))
		return bad(err, "--progress", value, "auto or never");
	o->no_progress = *value == 'n';
	return 0;
}

static int set_color(void *data, const char *value, struct ht_err *err)
{
	static const char *const names[] = {
		[HT_COLOR_AUTO] = "auto",
		[HT_COLOR_ALWAYS] = "always",
		[HT_COLOR_NEVER] = "never",
	};
	struct ht_record_options *o = data;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strcmp(value, names[i])) {
			o->color = (enum ht_color)i;
			return 0;
		}
	}
	return bad(err, "--color", value, "auto, always or never");
}

static int set_quiet(void *data, const char *value, struct ht_err *err)
{
	((struct ht_record_options *)data)->quiet = true;
	return 0;
}

static int set_verbose(void *data, const char *value, struct ht_err *err)
{
	((struct ht_record_options *)data)->verbose = true;
	return 0;
}

enum {
	OPT_MIN_SIZE = HT_OPTION_LONG,
	OPT_RING_SIZE,
	OPT_BLOCK,
	OPT_MAX_STACK,
	OPT_LOADER,
	OPT_TRANSPORT,
	OPT_LIMIT,
	OPT_DEBUGINFOD,
	OPT_PROGRESS,
	OPT_COLOR,
};

/* clang-format off */
const struct ht_option ht_record_option_table[] = {
	{ 'i', "interval", "BYTES", "mean bytes between samples; K, M and G may follow;\n"
	  "0: record every allocation exactly (default 64K)", set_interval },
	{ 'd', "duration", "SECS", "end after this time; fractions are fine", set_duration },
	{ 'o', "output", "FILE", "write the report to FILE (- for stdout), in the format\n"
	  "of its ending; may be given several times", set_output },
	{ 'f', "format", "NAME", "text, pprof, folded or folded-peak, whatever the\n"
	  "ending of FILE", set_format },
	{ OPT_LIMIT, "limit", "N", "call sites in a list of the text report, or \"all\"", set_limit },
	{ OPT_DEBUGINFOD, "debuginfod", "[URLS]", "ask servers for debug files that aren't here;\n"
	  "URLS: instead of those in DEBUGINFOD_URLS", set_debuginfod },
	{ OPT_MIN_SIZE, "min-size", "BYTES", "record all allocations of BYTES and more\n"
	  "exactly, and no smaller ones", set_min_size },
	{ OPT_RING_SIZE, "ring-size", "BYTES", "memory between target and heaptap, a power of\n"
	  "two from 64K to 1G (default 8M)", set_ring_size },
	{ OPT_BLOCK, "block", "[USECS]", "let the target wait, up to USECS, when the ring is\n"
	  "full, rather than lose samples; implied by -i 0\n"
	  "and --min-size", set_block },
	{ OPT_MAX_STACK, "max-stack", "BYTES", "stack copied for a sample at most, 1K to 8M\n"
	  "(default 128K)", set_max_stack },
	{ OPT_LOADER, "loader", "HOW", "how the hook gets in: auto, dlopen or map\n"
	  "(default auto)", set_loader },
	{ OPT_TRANSPORT, "transport", "HOW", "how samples come: ring (of shared memory) or socket\n"
	  "(default ring)", set_transport },
	{ 'q', "quiet", NULL, "print errors, warnings and the report only", set_quiet },
	{ 'v', "verbose", NULL, "tell more about what is done", set_verbose },
	{ OPT_PROGRESS, "progress", "WHEN", "auto or never: a line on stderr while recording",
	  set_progress },
	{ OPT_COLOR, "color", "WHEN", "auto, always or never", set_color },
	{ 0 }
};
/* clang-format on */
