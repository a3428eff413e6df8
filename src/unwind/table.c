/* SPDX-License-Identifier: Apache-2.0
 *
 * table.c: a compiled table and the calls to ask it. The compiler is in compile.c, the
 * reader itself in image.h.
 */
#include "unwind/table.h"

#include <stdlib.h>

#include "unwind/image-priv.h"

struct ht_table *ht_table_free(struct ht_table *table)
{
	if (table)
		free(table->image);
	free(table);
	return NULL;
}

const void *ht_table_image(const struct ht_table *table, size_t *ret_len)
{
	*ret_len = table->len;
	return table->image;
}

bool ht_table_lookup(const struct ht_table *table, uint64_t pc, struct ht_rule *ret_rule,
		     uint64_t *ret_row_start)
{
	struct ht_image_spot spot;

	if (!ht_image_lookup(&table->view, pc, ret_rule, &spot))
		return false;
	if (ret_row_start)
		*ret_row_start = ht_image_row_start(&table->view, &spot);
	return true;
}

bool ht_table_starts_at(const struct ht_table *table, uint64_t pc)
{
	struct ht_image_spot spot;

	return ht_image_find(&table->view, pc, &spot) &&
	       (table->view.rows[spot.row] & HT_ROW_FDE_START) &&
	       ht_image_row_start(&table->view, &spot) == pc;
}

void ht_table_stats(const struct ht_table *table, struct ht_table_stats *ret_stats)
{
	const struct ht_image_header *header = table->image;

	*ret_stats = (struct ht_table_stats){
		.fdes = header->fdes,
		.bad_fdes = header->bad_fdes,
		.overlaps = header->overlaps,
		.rows = header->n_rows,
		.slow_rows = header->slow_rows,
		.rules = header->n_rules,
		.exprs = header->n_exprs,
		.skipped_sections = header->skipped_sections,
		.text_bytes = header->text_bytes,
		.gap_bytes = header->gap_bytes,
	};
}
