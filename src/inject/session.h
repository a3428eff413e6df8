/* SPDX-License-Identifier: Apache-2.0
 *
 * session.h: a borrowed thread of the target, the system calls it makes for us, and files
 * passed to it. The files travel over a socketpair made in the target, of which we take
 * one end; both ends and the files are closed there before the session ends, even if we are
 * killed: all numbers are where attach/remote.h knows them. All threads must be stopped for
 * that; where they run one file is made in the target instead.
 */
#ifndef HT_INJECT_SESSION_H
#define HT_INJECT_SESSION_H

#include "attach/remote.h"
#include "base/err.h"

#define HT_SESSION_FILES 4

struct ht_session {
	struct ht_target *target;
	struct ht_remote *remote;
	struct ht_err *err;
	bool has_fds;
};

/* Borrow stopped thread @i. @err may be NULL. */
int ht_session_begin(struct ht_session *session, struct ht_target *target, size_t i,
		     struct ht_err *err) _must_check_ _nonnull_args_(1, 2);
/* Close what was passed and give the thread back. Negative only if the target was lost, or
 * something stayed open. */
int ht_session_end(struct ht_session *session) _must_check_ _nonnull_;

/* A remote system call that must succeed. @ret_result may be NULL. -ETIME: not made, the stop
 * would last too long. */
int ht_session_call(struct ht_session *session, long nr, const uint64_t args[6],
		    long *ret_result) _must_check_ _nonnull_args_(1, 3);

/* The same for several, the first of which that fails is the last that is made; of the others
 * the results are there then too. */
int ht_session_calls(struct ht_session *session, struct ht_syscall *calls, size_t n)
	_must_check_ _nonnull_;

/* Make a memory file by the name of @name in the target: *@ret_local is ours to close,
 * *@ret_remote its number there. It's the only one of ours that is open meanwhile, so that
 * other threads may run: it isn't closed if it's another file by then. Once a session, which
 * passes no files. */
int ht_session_make_file(struct ht_session *session, const char *name, int *ret_local,
			 int *ret_remote) _must_check_ _nonnull_;

/* Pass @n files, HT_SESSION_FILES at most; *@ret_remote are their numbers in the target.
 * Once a session. */
int ht_session_pass(struct ht_session *session, const int *fds, unsigned n, int *ret_remote)
	_must_check_ _nonnull_;
/* The same, and the socketpair is for messages and outlives the session: *@ret_local is our
 * end, ours to close. The other one, *@ret_remote_end, is closed with the session, so it has to
 * be duplicated before. */
int ht_session_pass_and_keep(struct ht_session *session, const int *fds, unsigned n,
			     int *ret_remote, int *ret_local, int *ret_remote_end)
	_must_check_ _nonnull_;

#endif
