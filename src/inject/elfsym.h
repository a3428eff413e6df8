/* SPDX-License-Identifier: Apache-2.0
 *
 * elfsym.h: symbol lookup on an image, for this folder and its tests.
 */
#ifndef HT_INJECT_ELFSYM_H
#define HT_INJECT_ELFSYM_H

#include "inject/elfdyn.h"
#include "inject/plan.h"

/* As ht_elf_symbol(), on a view. */
int ht_elfdyn_symbol(const struct ht_elfdyn *view, const char *name,
		      struct ht_elf_symbol *ret_symbol) _must_check_ _nonnull_;
/* @sym of @view in our words, its size filled in when it says 0. */
void ht_elf_symbol_fill(const struct ht_elfdyn *view, const Elf64_Sym *sym,
			struct ht_elf_symbol *ret_symbol) _nonnull_;

#endif
