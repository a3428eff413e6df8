/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/event.h"

#include <signal.h>
#include <sys/ptrace.h>

#include "base/compiler.h"
#include "ht_check.h"

#define STOPPED(sig) (0x7f | (sig) << 8)
#define EVENT(event, sig) (STOPPED(sig) | (event) << 16)

START_TEST(every_kind)
{
	static const struct {
		int status;
		struct ht_event want;
	} rows[] = {
		{ 0, { HT_EVENT_EXITED, 0 } },
		{ 7 << 8, { HT_EVENT_EXITED, 7 } },
		{ SIGKILL, { HT_EVENT_KILLED, SIGKILL } },
		{ SIGSEGV | 0x80, { HT_EVENT_KILLED, SIGSEGV } },
		{ EVENT(PTRACE_EVENT_STOP, SIGTRAP), { HT_EVENT_STOP, SIGTRAP } },
		{ EVENT(PTRACE_EVENT_STOP, SIGSTOP), { HT_EVENT_GROUP_STOP, SIGSTOP } },
		{ EVENT(PTRACE_EVENT_STOP, SIGTSTP), { HT_EVENT_GROUP_STOP, SIGTSTP } },
		{ EVENT(PTRACE_EVENT_STOP, SIGTTIN), { HT_EVENT_GROUP_STOP, SIGTTIN } },
		{ EVENT(PTRACE_EVENT_STOP, SIGTTOU), { HT_EVENT_GROUP_STOP, SIGTTOU } },
		{ EVENT(PTRACE_EVENT_CLONE, SIGTRAP), { HT_EVENT_CLONE, 0 } },
		{ EVENT(PTRACE_EVENT_EXEC, SIGTRAP), { HT_EVENT_EXEC, 0 } },
		{ EVENT(PTRACE_EVENT_VFORK, SIGTRAP),
		  { HT_EVENT_OTHER, PTRACE_EVENT_VFORK } },
		{ STOPPED(SIGTRAP | 0x80), { HT_EVENT_SYSCALL, 0 } },
		{ STOPPED(SIGTRAP), { HT_EVENT_SIGNAL, SIGTRAP } },
		{ STOPPED(SIGSTOP), { HT_EVENT_SIGNAL, SIGSTOP } },
		{ STOPPED(SIGUSR1), { HT_EVENT_SIGNAL, SIGUSR1 } },
		{ STOPPED(64), { HT_EVENT_SIGNAL, 64 } },
		{ 0xffff, { HT_EVENT_NONE, 0 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ht_event event = ht_event_decode(rows[i].status);

		ck_assert_msg(event.kind == rows[i].want.kind &&
				      event.value == rows[i].want.value,
			      "%#x: kind %d value %d", rows[i].status, event.kind,
			      event.value);
	}
}
END_TEST

int main(void)
{
	return ht_check_run("event", (const TTest *const[]){ every_kind, NULL });
}
