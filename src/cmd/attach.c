/* SPDX-License-Identifier: Apache-2.0
 *
 * attach.c: heaptap attach: tap a process that runs already.
 */
#include <unistd.h>

#include "attach/facts.h"
#include "cmd/find.h"
#include "cmd/record.h"

static int set_target_name(void *data, const char *value, struct ht_err *err)
{
	((struct ht_record_options *)data)->target_name = value;
	return 0;
}

static const struct ht_option own_options[] = {
	{ 'n', "name", "NAME", "the process of this name instead of a pid", set_target_name },
	{ 0 }
};

static const struct ht_option *const options[] = { own_options, ht_record_option_table,
						   NULL };

static int choose_target(const struct ht_record_options *record, char **operands,
			 int *ret_pid, struct ht_err *err)
{
	int pid;

	if (record->target_name && operands[0])
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL,
				  "--name and a pid don't go together");
	if (record->target_name)
		return ht_find_by_name(record->target_name, ret_pid, err);
	if (operands[0] && operands[1] && ht_cmd_parse_pid(operands[1], &pid, err) == 0)
		return ht_err_set(err, HT_ERR_USAGE, -E2BIG,
				  "attach taps one process; run one heaptap for each pid");
	return ht_cmd_parse_one_pid(operands, ret_pid, err);
}

/* What is known to forbid it, before anything is touched. */
static int check_target(int pid, struct ht_err *err)
{
	struct ht_facts facts;
	int r = ht_facts_read(pid, &facts, err);

	return r < 0 ? r : ht_facts_obstacle(&facts, HT_TO_TAP, err);
}

static int run(const struct ht_command *command, int argc, char **argv, int *ret_status,
	       struct ht_err *err)
{
	_cleanup_(ht_recorder_fini) struct ht_recorder recorder = HT_RECORDER_INIT;
	struct ht_record_options record = HT_RECORD_OPTIONS_INIT;
	char **operands;
	int pid, r;

	r = ht_cmd_parse(command, argc, argv, &record, &operands, err);
	if (r != 0)
		return r;
	r = choose_target(&record, operands, &pid, err);
	if (r < 0)
		return r;
	r = check_target(pid, err);
	if (r < 0)
		return r;
	r = ht_outputs_open(&recorder.outputs, &record, STDOUT_FILENO, err);
	if (r < 0)
		return r;
	r = ht_fetch_check(&record, err);
	if (r < 0)
		return r;
	recorder.options = &record;
	ht_signals_catch(false);
	r = ht_signals_open(&recorder.signal_fd, err);
	if (r < 0)
		return r;
	r = ht_tap_attach(pid, &record.tap, &recorder.tap, err);
	if (r < 0)
		return r;
	return ht_record(&recorder, err);
}

const struct ht_command ht_cmd_attach = {
	.name = "attach",
	.synopsis = "PID | --name=NAME",
	.summary = "tap a running process until Ctrl-C, --duration or its exit",
	.details = "The text report goes to stdout, unless --output names files for it. A second\n"
		   "Ctrl-C reports at once, without looking up lines.",
	.options = options,
	.run = run,
};
