/* SPDX-License-Identifier: Apache-2.0
 *
 * ledger.h: who holds how much. Call sites in a trie, live blocks in a table, sums per
 * site, the peak with its breakdown; exact when every event is recorded, unbiased
 * estimates with their variance when they are sampled.
 *
 * Events may come out of order within a window; seq, which the hook took after the real
 * malloc and before the real free, says what came first. Knows nothing of processes.
 *
 * Memory: 52 to 56 bytes a live block, about 250 a site and 32 a frame of the trie, all
 * three limited (2^26, 2^20, 2^22); what finds no room is counted, not dropped silently.
 * The window takes 64 bytes an event that waits, 64 MiB at most. No call takes more than
 * constant time an event, but for arrays that grow by doubling.
 */
#ifndef HT_LEDGER_LEDGER_H
#define HT_LEDGER_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/frame.h"

struct ht_ledger;

/* Figures of a site, or of all. Bytes and objects are estimates of truth: in exact mode
 * they are whole numbers and the variances are 0. */
struct ht_sum {
	double bytes;
	double objects;
	double bytes_variance;
	double objects_variance;
	uint64_t samples;
};

struct ht_figures {
	struct ht_sum live;	/* allocated since the tap, not freed */
	struct ht_sum total;	/* everything allocated */
	struct ht_sum freed;	/* total - live, of blocks seen */
	/* Live at the moment when all live bytes were highest. Exact in exact mode. Of
	 * samples it is measured by half of them at a moment that the other half chose
	 * (or now, if that is higher): the highest of noisy figures is too high. */
	struct ht_sum peak;
	double lifetime_ns;	/* of the freed, summed: divide by freed.objects */
	double temporary_objects; /* freed by the very next event; exact mode only */
};

struct ht_ledger_alloc {
	uint64_t addr;
	uint64_t size;		/* bytes asked for */
	uint64_t seq;
	uint64_t time_ns;	/* of the caller's clock */
	uint64_t interval;	/* mean bytes between samples then; 0: exact */
	uint32_t site;
	bool untracked;		/* its free won't be seen: counts to total only */
};

struct ht_ledger_counters {
	uint64_t allocs, frees, reallocs;	/* events applied */
	uint64_t unknown_frees;		/* of blocks older than the tap, or lost */
	uint64_t replaced;		/* allocated twice: a free was lost */
	uint64_t untracked;		/* said so, or no room for one more live block */
	uint64_t late;			/* came after the window */
	uint64_t folded;		/* stacks without room: one site */
	uint64_t sites, nodes, live_blocks;
	uint64_t peak_time_ns;
	/* The peak is what is live now. If not, and if there were samples, it is measured
	 * by half of them: their interval was twice as long. */
	bool peak_now;
};

int ht_ledger_new(struct ht_ledger **ret_ledger) _must_check_ _nonnull_;
struct ht_ledger *ht_ledger_free_all(struct ht_ledger *ledger);

/* Intern a stack, innermost frame first. @label distinguishes equal stacks (thread,
 * heap); 0 for none. */
int ht_ledger_site(struct ht_ledger *ledger, const struct ht_stack *stack, uint32_t label,
		   uint32_t *ret_site) _must_check_ _nonnull_;

/* Queue events; they take effect in order of seq, which counts from 1 without gaps, but
 * for lost events. 0 or -ENOMEM: something was lost then, the ledger stays usable. */
int ht_ledger_alloc(struct ht_ledger *ledger, const struct ht_ledger_alloc *alloc)
	_must_check_ _nonnull_;
int ht_ledger_free(struct ht_ledger *ledger, uint64_t addr, uint64_t seq,
		   uint64_t time_ns) _must_check_ _nonnull_;
/* A realloc that succeeded: @old_addr went away at @free_seq, then @alloc began. One
 * event: no peak is taken between the two. @old_addr 0: a plain allocation. */
int ht_ledger_realloc(struct ht_ledger *ledger, uint64_t old_addr, uint64_t free_seq,
		      const struct ht_ledger_alloc *alloc) _must_check_ _nonnull_;

/* An event of the block at @addr comes soon. Not needed, but it makes that one faster if
 * something else is done in between. */
void ht_ledger_expect(const struct ht_ledger *ledger, uint64_t addr) _nonnull_;

/* Tell that everything published before the previous call has been queued by now: gaps in
 * seq older than that will never be filled and are stepped over. @final applies all. */
int ht_ledger_settle(struct ht_ledger *ledger, bool final) _must_check_ _nonnull_;

void ht_ledger_total(const struct ht_ledger *ledger, struct ht_figures *ret_figures)
	_nonnull_;
void ht_ledger_counters(const struct ht_ledger *ledger,
			struct ht_ledger_counters *ret_counters) _nonnull_;
size_t ht_ledger_site_count(const struct ht_ledger *ledger) _nonnull_;
/* @site < ht_ledger_site_count(). */
void ht_ledger_site_figures(const struct ht_ledger *ledger, uint32_t site,
			    struct ht_figures *ret_figures) _nonnull_;
void ht_ledger_site_stack(const struct ht_ledger *ledger, uint32_t site,
			  struct ht_stack *ret_stack, uint32_t *ret_label)
	_nonnull_args_(1, 3);

/* Half-width of the 95 % interval of an estimate with @variance. Below HT_FEW_SAMPLES
 * samples no such bar can be trusted: use ht_sum_upper(). */
#define HT_FEW_SAMPLES 20
double ht_bar95(double variance);
/* 95 % upper bound of the true bytes behind a few samples, or none, of mean interval
 * @interval: the exact Poisson bound times the weight when all weights are equal, and
 * scaled to the weights seen (by mean and variance) when they differ. */
double ht_sum_upper(const struct ht_sum *sum, uint64_t interval) _nonnull_;

/* Probability that an allocation of @size bytes is sampled at @interval: 1 - exp(-s/I),
 * where s is 1 for malloc(0); 1 when @interval is 0. */
double ht_sample_probability(uint64_t size, uint64_t interval);

#endif
