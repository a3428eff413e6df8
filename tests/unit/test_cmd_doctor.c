/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap doctor on machines and processes that aren't here. A real one that can be tapped
 * is in tests/cli/doctor.test.
 */
#include <unistd.h>

#include "capture.h"
#include "made_proc.h"

/* Without a pid it looks at itself. */
static int doctor_itself(void *arg)
{
	char *argv[] = { (char *)"doctor", NULL }, path[32];
	int status = 0;

	snprintf(path, sizeof(path), "%d/status", (int)getpid());
	made_proc_put(path, MADE_PROC_SELF);
	snprintf(path, sizeof(path), "%d/stat", (int)getpid());
	made_proc_put(path, "9 (heaptap) R 7 9 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 5 1 1 1 "
			    "1 1 9");
	return ht_cmd_doctor.run(&ht_cmd_doctor, 1, argv, &status, NULL) < 0 ? 99 : status;
}

static void machine(const char *yama, const char *caps, const char *permission,
		    const char *attach)
{
	struct captured c;

	if (yama)
		made_proc_put("sys/kernel/yama/ptrace_scope", yama);
	made_proc_put("self/status", caps);
	capture(doctor_itself, NULL, &c);
	ck_assert_int_eq(c.status, 0);
	ck_assert_str_eq(c.err.data, "");
	captured_has(&c, permission);
	captured_has(&c, attach);
	captured_fini(&c);
}

#define PLAIN MADE_PROC_SELF "CapEff:\t0\n"
#define PTRACE MADE_PROC_SELF "CapEff:\t0000000000080002\n"

START_TEST(what_the_machine_permits)
{
	made_proc_init();
	machine(NULL, PLAIN,
		"\n                no kernel.yama.ptrace_scope: processes of the same user\n",
		"\n  attach        own processes; use sudo for those of others\n");
	machine("0\n", PLAIN, "kernel.yama.ptrace_scope 0: processes of the same user\n",
		"own processes; use sudo");
	machine("1\n", PLAIN, "kernel.yama.ptrace_scope 1: own children only",
		"not possible but by heaptap run; use sudo, or sudo sysctl kernel.yama.ptrace_scope=0\n");
	machine("2\n", PLAIN, "kernel.yama.ptrace_scope 2: root or CAP_SYS_PTRACE only\n",
		"not possible; use sudo, or sudo sysctl");
	machine("3\n", PLAIN, "kernel.yama.ptrace_scope 3: nobody, until the next boot\n",
		"attach        not possible\n");
	machine("2\n", PTRACE, ", CAP_SYS_PTRACE\n", "attach        any process\n");
	machine("0\n", MADE_PROC_SELF "CapEff:\t80000\n", ", CAP_SYS_PTRACE\n",
		"own processes; for those of others CAP_DAC_OVERRIDE is needed, too\n");
	machine("3\n", PTRACE, "3: nobody", "attach        not possible\n");
	made_proc_put("self/uid_map", "         0          0 4294967295\n");
	machine("0\n", PTRACE, ", CAP_SYS_PTRACE\n", "attach        any process\n");
	made_proc_put("self/uid_map", "         0       1000          1\n");
	machine("0\n", PTRACE, ", CAP_SYS_PTRACE\n",
		"attach        the processes of this user namespace; for others run heaptap on the host\n");
	/* Root of a container. */
	machine("0\n", "Tgid:\t9\nCapEff:\t0\nUid:\t0\t0\t0\t0\n", "without CAP_SYS_PTRACE\n",
		"attach        only processes of root; give heaptap CAP_SYS_PTRACE");
	machine("1\n", "Tgid:\t9\nCapEff:\t0\nUid:\t0\t0\t0\t0\n", "without CAP_SYS_PTRACE\n",
		"attach        not possible; give heaptap CAP_SYS_PTRACE");
	/* A value that no kernel has yet is as strict as the strictest known. */
	machine("7\n", PLAIN, "3: nobody", "attach        not possible\n");
	made_proc_fini();
}
END_TEST

/* The refusal that attach would give comes first, and is the exit status. */
static void refused(int status, const char *first, const char *line)
{
	struct captured c;

	capture_command(&c, &ht_cmd_doctor, "42", NULL);
	ck_assert_int_eq(c.status, status);
	ck_assert_str_eq(c.err.data, "");
	if (strncmp(c.out.data, first, strlen(first)) != 0)
		captured_is(&c, status, first, "");
	captured_has(&c, line);
	captured_has_not(&c, "\n  next ");
	captured_has_not(&c, "can be tapped");
	captured_fini(&c);
}

START_TEST(why_a_process_cannot_be_tapped)
{
	made_proc_init();
	made_proc_put("sys/kernel/yama/ptrace_scope", "0\n");
	made_proc_close();
	made_proc_put("42/status", "Name:\tserver\nTgid:\t42\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n");
	refused(HT_ERR_PERM, "can't tap 42 (server): it belongs to root and you're uid 1000;",
		"\n  permission    refused: another user\n");
	made_proc_put("42/status", "CapPrm:\t0000000000000400\nName:\tserver\nTgid:\t42\n"
				   MADE_PROC_IDS);
	refused(HT_ERR_PERM, "", "refused: same user, it has capabilities that you lack\n");
	made_proc_fini();
}
END_TEST

/* The kernel refuses these to everybody: to say so would contradict the rest. */
START_TEST(no_permission_where_nothing_is_to_be_had)
{
	static const char *const stats[] = {
		"42 (server) S 2 0 0 0 -1 2129984 1 2 3 4 5 6 7 8 20 0 3 0 555 1 1 1 1 1 9",
		"42 (server) Z 7 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 555 1 1 1 1 1 9",
	};
	struct captured c;

	made_proc_init();
	ck_assert_int_eq(tool_run("rm %s/42/mem %s/42/exe", made_proc_root, made_proc_root), 0);
	made_proc_put("42/task/42/status", "Name:\tserver\nState:\tZ (zombie)\n");
	for (size_t i = 0; i < ARRAY_SIZE(stats); i++) {
		made_proc_put("42/stat", stats[i]);
		capture_command(&c, &ht_cmd_doctor, "42", NULL);
		ck_assert_int_eq(c.status, i ? HT_ERR_GONE : HT_ERR_UNSUPPORTED);
		captured_has(&c, i ? "it's a zombie" : "it's a kernel thread");
		captured_has_not(&c, "permission");
		captured_fini(&c);
	}
	made_proc_fini();
}
END_TEST

/* What is known is told, although it was refused. */
START_TEST(what_kind_of_program)
{
	char path[96];

	made_proc_init();
	made_proc_put("42/status", "TracerPid:\t8\nName:\tserver\nTgid:\t42\nThreads:\t1\n"
				   "CapPrm:\t0\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\n");
	snprintf(path, sizeof(path), "%s/42/exe", made_proc_root);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(symlink("/opt/x/serv\ner", path), 0);
	made_proc_put("42/task/42/status", "Name:\tserver\nState:\tS (sleeping)\nSeccomp:\t1\n");
	refused(HT_ERR_PERM, "can't tap 42 (server): it's traced by another process (pid 8)",
		"/opt/x/serv?er, unreadable, libc not known, 1 thread\n");
	refused(HT_ERR_PERM, "", "\n  seccomp       strict: ");
	made_proc_fini();
}
END_TEST

START_TEST(nobody)
{
	struct captured c;

	made_proc_init();
	capture_command(&c, &ht_cmd_doctor, "43", NULL);
	captured_is(&c, HT_ERR_GONE, "", "heaptap: no process 43: it ended, or has another pid here (in a container); see ps -e\n");
	captured_fini(&c);
	made_proc_fini();
}
END_TEST

int main(void)
{
	return ht_check_run("cmd_doctor", (const TTest *const[]){
		what_the_machine_permits, why_a_process_cannot_be_tapped,
		no_permission_where_nothing_is_to_be_had, what_kind_of_program, nobody, NULL });
}
