/* SPDX-License-Identifier: Apache-2.0
 *
 * cure.c: heaptap cure: take out what a killed heaptap left in a process.
 */
#include "attach/facts.h"
#include "cmd/cmd.h"
#include "tap/tap.h"

static int run(const struct ht_command *command, int argc, char **argv, int *ret_status,
	       struct ht_err *err)
{
	struct ht_facts facts;
	char **operands;
	bool found, left;
	int pid, r;

	r = ht_cmd_parse(command, argc, argv, NULL, &operands, err);
	if (r != 0)
		return r;
	r = ht_cmd_parse_one_pid(operands, &pid, err);
	if (r < 0)
		return r;
	r = ht_facts_read(pid, &facts, err);
	if (r < 0)
		return r;
	r = ht_tap_cure_pid(pid, &found, &left, err);
	if (r < 0)
		return r;
	if (found && left)
		ht_cmd_talk("nothing of %d (%s) is patched any more; code of heaptap stays mapped and out of use, as a thread or another tool's patch may still lead into it; try again later",
			    pid, facts.name);
	else if (found)
		ht_cmd_talk("%d (%s) is as it was before it was tapped", pid, facts.name);
	else
		ht_cmd_talk("%d (%s) was as it should be: nothing of heaptap is in it", pid,
			    facts.name);
	return 0;
}

const struct ht_command ht_cmd_cure = {
	.name = "cure",
	.synopsis = "PID",
	.summary = "take out what a killed heaptap left in a process",
	.run = run,
};
