/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_recording.h: a recording filled by hand, for tests of the formatters: what the
 * ledger and the symbols say is what the test said.
 */
#ifndef HT_TESTS_UNIT_FAKE_RECORDING_H
#define HT_TESTS_UNIT_FAKE_RECORDING_H

#include "fake_modules.h"
#include "report/report.h"

struct fake {
	struct ht_recording recording;
	struct ht_ledger *ledger;
	struct ht_modules *modules;
	struct ht_symbols *symbols;
};

/* redis-server with modules 0 (itself), 1 (libc), 2 (one without symbols). */
void fake_init(struct fake *fake);
void fake_fini(struct fake *fake);

/* Make code of these functions, innermost inlined first; the frame that is there. */
struct ht_frame fake_code(struct fake *fake, uint32_t module, const struct ht_symbol *symbols,
			  size_t n);
/* The same for one function. */
struct ht_frame fake_function(struct fake *fake, uint32_t module, const char *name,
			      const char *file, uint32_t line);

/* A site with @n frames, innermost first. Live, total and freed; the peak is taken to be live.
 * The variances are those of @samples equal samples, 0 in an exact recording. */
uint32_t fake_site(struct fake *fake, const struct ht_frame *frames, size_t n,
		   enum ht_stack_end end, double live_bytes, double live_objects,
		   uint64_t live_samples, double total_factor);
/* What the site made last held at the peak, which then isn't now. */
void fake_peak(struct fake *fake, double bytes, double objects, uint64_t samples);
/* The label of the site made last. */
void fake_label(struct fake *fake, uint32_t label);
struct ht_ledger_counters *fake_counters(struct fake *fake);
/* Of HT_MODULE_NONE: of all code that is in no file. */
void fake_reason(struct fake *fake, uint32_t module, const char *reason, bool bare);

/* The recording that the golden files show. */
void fake_redis(struct fake *fake);
/* Names as nobody should have. */
void fake_hostile(struct fake *fake);

#endif
