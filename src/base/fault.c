/* SPDX-License-Identifier: Apache-2.0
 *
 * fault.c: see fault.h.
 */
#include "base/fault.h"

#ifdef HT_FAULTS

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HT_FAULT_SPECS 4
#define SLOW_MS 200

/* For sweeps: which points are passed, and how often. */
static void trace(const char *name, size_t len)
{
	const char *fd = getenv("HEAPTAP_FAULT_TRACE");

	if (fd)
		(void)!(write(atoi(fd), name, len) + write(atoi(fd), "\n", 1));
}

/* One NAME:WAY[@N] of the list. 0: not this one, or not now. */
static int meet(const char *spec, unsigned long *passed, const char *name, size_t len)
{
	const char *way = spec + len + 1;
	unsigned long nth;
	size_t way_len;

	if (strncmp(spec, name, len) || spec[len] != ':')
		return 0;
	way_len = strcspn(way, "@,");
	nth = way[way_len] == '@' ? strtoul(way + way_len + 1, NULL, 10) : 1;
	++*passed;
	if (nth && *passed != nth)
		return 0;
	if (!strncmp(way, "kill", 4))
		kill(getpid(), SIGKILL);
	if (!strncmp(way, "stop", 4))
		kill(getpid(), SIGSTOP);
	if (!strncmp(way, "alarm", 5))
		raise(SIGALRM);
	if (!strncmp(way, "slow", 4))
		poll(NULL, 0, SLOW_MS);
	return -atoi(way);
}

/* Another list is counted anew. */
static void begin_list(const char *list, unsigned long passed[HT_FAULT_SPECS])
{
	static char last[256];

	if (strncmp(list, last, sizeof(last) - 1)) {
		strncpy(last, list, sizeof(last) - 1);
		memset(passed, 0, HT_FAULT_SPECS * sizeof(*passed));
	}
}

int ht_fault(const char *name)
{
	static unsigned long passed[HT_FAULT_SPECS];
	const char *spec = getenv("HEAPTAP_FAULT");
	size_t len = strlen(name);
	int r = 0;

	trace(name, len);
	if (spec)
		begin_list(spec, passed);
	/* Each counts, also behind one that fires. */
	for (unsigned i = 0; spec && i < HT_FAULT_SPECS; i++) {
		int met = meet(spec, &passed[i], name, len);

		r = r ?: met;
		spec = strchr(spec, ',');
		spec += spec != NULL;
	}
	return r;
}

#else
/* ISO C wants something in a translation unit. */
typedef int ht_fault_is_off;
#endif
