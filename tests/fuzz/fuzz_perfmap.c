/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_perfmap.c: any bytes as a perf map, in pieces of which the first byte chooses the size.
 * What is found lies in a range that a line named, and no later one.
 */
#include "fuzz.h"
#include "symbol/jit-priv.h"

static void check_pieces(const struct ht_ranges *ranges)
{
	uint64_t above = 0;

	for (size_t i = 0; i < ranges->pieces.len; i++) {
		const struct ht_range_piece *piece = &ranges->pieces.at[i];
		const struct ht_range *range = &ranges->all.at[piece->range];

		CHECK(piece->start >= above && piece->end > piece->start);
		CHECK(piece->start >= range->start && piece->end <= range->end);
		above = piece->end;
		CHECK(ht_ranges_find(ranges, piece->start) ==
		      ranges->names.data + range->name);
		CHECK(ht_ranges_find(ranges, piece->end - 1) ==
		      ranges->names.data + range->name);
	}
}

static void check_parts(const char *name)
{
	size_t len = strlen(name);
	struct ht_jit_parts parts;

	ht_jit_parse(name, &parts);
	CHECK(parts.name_len > 0 && parts.name_len == strnlen(parts.name, parts.name_len));
	if (parts.file)
		CHECK(parts.file_len > 0 && parts.file > name &&
		      parts.file + parts.file_len <= name + len);
}

static void check_ranges(const struct ht_ranges *ranges)
{
	for (size_t i = 0; i < ranges->all.len; i++) {
		const struct ht_range *range = &ranges->all.at[i];
		const char *name = ht_ranges_find(ranges, range->start), *last = NULL;

		CHECK(range->end > range->start && range->name < ranges->names.len);
		CHECK(ranges->names.data[range->name]);
		check_parts(ranges->names.data + range->name);
		if (i >= 64)
			continue;
		for (size_t j = 0; j < ranges->all.len; j++)
			if (range->start >= ranges->all.at[j].start &&
			    range->start < ranges->all.at[j].end)
				last = ranges->names.data + ranges->all.at[j].name;
		CHECK(name == last);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ht_perfmap map;
	size_t piece = size ? 1 + data[0] : 1, at;

	for (at = 1; at < size; at += piece)
		CHECK(!ht_perfmap_add(&map, (const char *)data + at, ht_min(piece, size - at)));
	CHECK(map.len <= sizeof(map.line));
	CHECK(!ht_ranges_index(&map.ranges));
	check_pieces(&map.ranges);
	check_ranges(&map.ranges);
	ht_perfmap_restart(&map, false);
	return 0;
}

static const char text[] =
	"?7f0000001000 40 JS:*keep /srv/app.js:12:3\n"
	"0x00007f0000001020 0x0000000000000100 void Foo.bar(int)\n"
	"7f0000002000 40 LazyCompile:~f node:a:1:2\n7f0000000ff0 1a\tpy::main:/srv/a.py\r\n"
	"7f0000001010 8 inner\n7f0000001010 8 newer\nmalformed\n";

const unsigned fuzz_runs = 5000;

void fuzz_seed(unsigned i, struct fuzz_output *out)
{
	if (i == 0)
		fuzz_put(out, text, sizeof(text) - 1);
}
