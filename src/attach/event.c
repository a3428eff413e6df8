/* SPDX-License-Identifier: Apache-2.0
 *
 * event.c: see event.h. waitpid(2) gives a stop as
 *
 *	bits 0-7 0x7f, 8-15 the signal (bit 7 of it: TRACESYSGOOD), 16-23 PTRACE_EVENT_*
 */
#include "attach/event.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

static bool stops_jobs(int sig)
{
	return sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU;
}

static struct ht_event decode_ptrace_event(int event, int sig)
{
	switch (event) {
	case PTRACE_EVENT_STOP:
		/*
		 * SIGTRAP for an INTERRUPT; the signal of a group-stop. An INTERRUPT during
		 * a group-stop shows the latter: it's a stop that must stay.
		 */
		if (stops_jobs(sig))
			return (struct ht_event){ HT_EVENT_GROUP_STOP, sig };
		return (struct ht_event){ HT_EVENT_STOP, sig };
	case PTRACE_EVENT_CLONE:
		return (struct ht_event){ HT_EVENT_CLONE, 0 };
	case PTRACE_EVENT_EXEC:
		return (struct ht_event){ HT_EVENT_EXEC, 0 };
	default:
		return (struct ht_event){ HT_EVENT_OTHER, event };
	}
}

struct ht_event ht_event_decode(int status)
{
	int sig;

	if (WIFEXITED(status))
		return (struct ht_event){ HT_EVENT_EXITED, WEXITSTATUS(status) };
	if (WIFSIGNALED(status))
		return (struct ht_event){ HT_EVENT_KILLED, WTERMSIG(status) };
	if (!WIFSTOPPED(status))
		return (struct ht_event){ HT_EVENT_NONE, 0 };
	sig = WSTOPSIG(status);
	if (status >> 16)
		return decode_ptrace_event((status >> 16) & 0xff, sig);
	if (sig == (SIGTRAP | 0x80))
		return (struct ht_event){ HT_EVENT_SYSCALL, 0 };
	return (struct ht_event){ HT_EVENT_SIGNAL, sig };
}
