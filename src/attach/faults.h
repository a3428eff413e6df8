/* SPDX-License-Identifier: Apache-2.0
 *
 * faults.h: the named fault points (base/fault.h) of this folder, for tests that sweep over
 * them.
 */
#ifndef HT_ATTACH_FAULTS_H
#define HT_ATTACH_FAULTS_H

/* Passed by a stop and resume. NULL-terminated, as all of these. */
extern const char *const ht_stop_faults[];
/* Passed by a remote system call; the stop's are passed too. */
extern const char *const ht_remote_faults[];
/* Passed by a remote function call, beside those of a system call. */
extern const char *const ht_remote_call_faults[];
extern const char *const ht_launch_faults[];

#endif
