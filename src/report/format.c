/* SPDX-License-Identifier: Apache-2.0
 *
 * format.c: the formats, by name and by file ending.
 */
#include <string.h>

#include "report/report.h"

const struct ht_report_format *const ht_report_formats[] = {
	&ht_report_text, &ht_report_pprof, &ht_report_folded, &ht_report_folded_peak, NULL,
};

const struct ht_report_format *ht_report_format_by_name(const char *name)
{
	size_t i;

	for (i = 0; ht_report_formats[i]; i++)
		if (strcmp(ht_report_formats[i]->name, name) == 0)
			return ht_report_formats[i];
	return NULL;
}

/* The longest ending decides: "x.json" isn't "x.speedscope.json". A name that is nothing but
 * an ending has none. */
const struct ht_report_format *ht_report_format_by_path(const char *path)
{
	const struct ht_report_format *best = NULL;
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t len = strlen(name), n, i;

	for (i = 0; ht_report_formats[i]; i++) {
		n = strlen(ht_report_formats[i]->suffix);
		if (n < len && strcmp(name + len - n, ht_report_formats[i]->suffix) == 0 &&
		    (!best || n > strlen(best->suffix)))
			best = ht_report_formats[i];
	}
	return best;
}
