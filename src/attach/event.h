/* SPDX-License-Identifier: Apache-2.0
 *
 * event.h: what a wait status of a seized thread means. A pure function, so that every case
 * is in a table of the unit test.
 */
#ifndef HT_ATTACH_EVENT_H
#define HT_ATTACH_EVENT_H

enum ht_event_kind {
	HT_EVENT_EXITED,	/* value: exit status */
	HT_EVENT_KILLED,	/* value: signal */
	HT_EVENT_STOP,		/* PTRACE_INTERRUPT, or a new thread's first stop */
	HT_EVENT_GROUP_STOP,	/* job control; value: the stopping signal */
	HT_EVENT_CLONE,		/* a thread or process was made and is seized too */
	HT_EVENT_EXEC,
	HT_EVENT_SYSCALL,	/* entry or exit, with PTRACE_O_TRACESYSGOOD */
	HT_EVENT_SIGNAL,	/* value: the signal; it is lost unless put back at resume */
	HT_EVENT_OTHER,		/* stopped for something that we never asked for */
	HT_EVENT_NONE,		/* no end and no stop (WIFCONTINUED, garbage) */
};

struct ht_event {
	enum ht_event_kind kind;
	int value;
};

struct ht_event ht_event_decode(int status);

#endif
