/* SPDX-License-Identifier: Apache-2.0
 *
 * tap.h: one tapped target's life: attach or launch, inject, serve its records into a
 * ledger, cure. The one module that commands use to record.
 */
#ifndef HT_TAP_TAP_H
#define HT_TAP_TAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/err.h"
#include "ledger/ledger.h"
#include "unwind/module.h"

struct ht_jit;
struct ht_plan;
struct ht_stop;

enum ht_loader {
	HT_LOADER_AUTO,
	HT_LOADER_DLOPEN,
	HT_LOADER_MAP,
};

enum ht_transport {
	HT_TRANSPORT_RING,
	HT_TRANSPORT_SOCKET,
};

#define HT_DEFAULT_INTERVAL (64 * 1024)
#define HT_DEFAULT_RING_SIZE (8 * 1024 * 1024)
#define HT_DEFAULT_MAX_STACK (128 * 1024)

struct ht_tap_options {
	uint64_t interval;	/* mean bytes between samples; 0: exact */
	/* Record all allocations of so many bytes and no others, whatever interval is; 0: not
	 * used */
	uint64_t min_size;
	uint64_t ring_size;	/* bytes */
	uint64_t max_stack;	/* bytes of stack copied for a sample at most */
	bool block;		/* wait when the ring is full; implied by exactness */
	uint64_t block_us;	/* longest wait; 0: default */
	enum ht_loader loader;
	enum ht_transport transport;
};

struct ht_tap;

enum ht_tap_state {
	HT_TAP_RUNNING,		/* ht_tap_serve(): the time is over or there is news, go on */
	HT_TAP_EXITED,		/* the target is gone */
	HT_TAP_EXECED,		/* it runs another program now; nothing of ours is left */
	HT_TAP_CUT,		/* the hook can't tell more; it's to be cured */
	HT_TAP_CURED,
};

/* Tap the live process @pid. On failure the target is as it was. */
int ht_tap_attach(pid_t pid, const struct ht_tap_options *options, struct ht_tap **ret_tap,
		  struct ht_err *err) _must_check_ _nonnull_args_(2, 3);
/* Start @argv (PATH is searched) and tap it before its first allocation. It inherits
 * stdin, stdout and stderr. -ENOENT, -EACCES: CMD can't be run. */
int ht_tap_launch(char *const argv[], const struct ht_tap_options *options,
		  struct ht_tap **ret_tap, struct ht_err *err) _must_check_
	_nonnull_args_(1, 2, 3);
/* Cures if that wasn't done. */
struct ht_tap *ht_tap_free(struct ht_tap *tap);

/* Read and account records until @deadline_ns, the target's end, until @wake_fd (a signalfd
 * of the caller, -1: none) is readable, or until there are more late allocators. */
int ht_tap_serve(struct ht_tap *tap, uint64_t deadline_ns, int wake_fd,
		 enum ht_tap_state *ret_state, struct ht_err *err) _must_check_
	_nonnull_args_(1, 4);
/* Take everything back out of the target, drain what was still to be read, settle the
 * ledger. After an exit or exec only the latter two. */
int ht_tap_cure(struct ht_tap *tap, struct ht_err *err) _nonnull_args_(1);

/* Figures of the recording; good until ht_tap_free(). */
struct ht_tap_result {
	pid_t pid;
	const char *command;
	const char *exe;
	const char *allocators;
	uint64_t start_unix_ns;
	uint64_t duration_ns;	/* gate opened to gate closed, or until now */
	uint64_t samples;
	uint64_t lost_allocs, lost_frees, lost_corrupt;
	uint64_t cut_stacks;
	uint64_t drops;		/* calls that freed blocks without naming them */
	uint64_t waits;		/* times that a thread waited for room in the ring */
	unsigned stops, threads;
	uint64_t stop_max_ns, stop_total_ns;
	const struct ht_stop *stop_log;	/* the first of the stops; good until the next one */
	unsigned n_stop_log;
	bool left;		/* after the cure: code stayed mapped, out of use */
	/* After an exec, or an end under another name: the name of the program that took its
	 * place; else NULL. */
	const char *successor;
	bool successor_likely;	/* only its name, at its end, speaks for it */
	/* Why nothing could be recorded any more before the end, for people; else NULL. */
	const char *cut;
	/* Allocators that it has loaded since the plan was made, which aren't tapped; good until
	 * the tap is served or cured. */
	const struct ht_module *const *late;
	size_t n_late;
	const struct ht_plan *plan;
	const struct ht_ledger *ledger;
	const struct ht_jit *jit;	/* names of code that is in no file */
	const struct ht_modules *modules;
};
void ht_tap_result(const struct ht_tap *tap, struct ht_tap_result *ret_result) _nonnull_;
/* Of a launched target that exited: as waitpid(2) gave it. */
int ht_tap_wait_status(const struct ht_tap *tap) _nonnull_;

/* Repair what a killed heaptap left in @pid. *ret_found false: nothing was there. *ret_left:
 * its code stays mapped, out of use, because a thread or a patch over ours may still lead
 * into it. */
int ht_tap_cure_pid(pid_t pid, bool *ret_found, bool *ret_left, struct ht_err *err)
	_must_check_ _nonnull_args_(2, 3);

#endif
