/* SPDX-License-Identifier: Apache-2.0
 *
 * find.c: processes by name.
 */
#include "cmd/find.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/facts.h"

static void closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* The kernel puts this behind the path of a program that was replaced while it ran. */
#define DELETED " (deleted)"

static bool is_named(const struct ht_facts *facts, const char *name)
{
	const char *slash = strrchr(facts->exe, '/');
	size_t len = strlen(name);

	return !facts->kernel_thread &&
	       (!strcmp(facts->name, name) ||
		(slash && !strncmp(slash + 1, name, len) &&
		 (!slash[1 + len] || !strcmp(slash + 1 + len, DELETED))));
}

/* Add @pid to the list, whole or not at all: half a number would be another process. */
static void list_pid(char *list, size_t cap, int pid)
{
	static const char more[] = ", ...";
	char each[sizeof(more) + 16];
	size_t len = strlen(list), room = cap - len;

	if (len >= strlen(more) && !strcmp(list + len - strlen(more), more))
		return;
	snprintf(each, sizeof(each), "%s%d", len ? ", " : "", pid);
	snprintf(list + len, room, "%s", strlen(each) + sizeof(more) <= room ? each : more);
}

int ht_find_by_name(const char *name, int *ret_pid, struct ht_err *err)
{
	_cleanup_(closedirp) DIR *proc = opendir(ht_proc_root);
	char list[200] = "";
	struct ht_facts facts;
	struct dirent *entry;
	size_t found = 0;
	int pid = 0, dead = 0, each;

	if (!proc)
		return ht_err_set(err, HT_ERR_FAILED, -errno, "can't read %s: %s",
				  ht_proc_root, strerror(errno));
	while ((entry = readdir(proc)) != NULL) {
		each = atoi(entry->d_name);
		if (each <= 0 || each == getpid() ||
		    ht_facts_read(each, &facts, NULL) < 0 || !is_named(&facts, name))
			continue;
		if (ht_facts_is_dead(&facts)) {
			dead = each;
			continue;
		}
		pid = each;
		list_pid(list, sizeof(list), each);
		found++;
	}
	if (!found && ht_facts_no_proc(err))
		return -ENODEV;
	if (!found && !dead)
		return ht_err_set(err, HT_ERR_GONE, -ESRCH,
				  "no process is named \"%s\"; give a pid, as ps -e lists them",
				  name);
	if (found > 1)
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL,
				  "%zu processes are named \"%s\": %s; give the pid of one",
				  found, name, list);
	/* Of a zombie the refusal will say that it is one. */
	*ret_pid = found ? pid : dead;
	return 0;
}
