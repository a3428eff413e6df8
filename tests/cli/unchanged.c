/* SPDX-License-Identifier: Apache-2.0
 *
 * unchanged.c PID ANSWERS none|anon: looks at a process now and again for each line on stdin, and
 * writes to ANSWERS, a FIFO that is opened anew for each answer, what is no more as it was at
 * first. The first answer is empty, or why there's nothing to compare with. anon: unnamed memory
 * may change.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "ht_snapshot.h"

static void answer(const char *path, const struct ht_buf *text)
{
	FILE *answers = fopen(path, "we");

	if (!answers)
		exit(99);
	fputs(text->data ? text->data : "", answers);
	fclose(answers);
}

static struct ht_snapshot *look(pid_t pid, struct ht_buf *why)
{
	struct ht_snapshot *snapshot = NULL;
	int r = ht_snapshot_take(pid, &snapshot);

	if (r < 0)
		ht_buf_printf(why, "can't look at it: %s\n", strerror(-r));
	return snapshot;
}

static void compare(pid_t pid, const struct ht_snapshot *before, unsigned ignore,
		    struct ht_buf *why)
{
	struct ht_snapshot *after = look(pid, why);

	if (!after)
		return;
	ht_snapshot_compare(before, after, ignore, why);
	if (ht_snapshot_leftovers(after) > ht_snapshot_leftovers(before))
		ht_buf_puts(why, "something of heaptap is mapped\n");
	ht_snapshot_free(after);
}

int main(int argc, char **argv)
{
	struct ht_buf why = HT_BUF_INIT;
	unsigned ignore;
	struct ht_snapshot *before;
	char line[16];
	pid_t pid;

	if (argc < 3)
		return 99;
	ignore = argc > 3 && !strcmp(argv[3], "anon") ? HT_SNAPSHOT_ANON : 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pid = (pid_t)atoi(argv[1]);
	/* The dead have nothing to look at, and others not everybody may look at. */
	before = look(pid, &why);
	answer(argv[2], &why);
	while (fgets(line, sizeof(line), stdin)) {
		ht_buf_clear(&why);
		if (before)
			compare(pid, before, ignore, &why);
		answer(argv[2], &why);
	}
	ht_snapshot_free(before);
	ht_buf_fini(&why);
	return 0;
}
