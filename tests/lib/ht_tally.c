/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_tally.c: see ht_tally.h.
 */
#include "ht_tally.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"

void ht_tally(const char *what, unsigned stops, uint64_t stop_max_ns)
{
	const char *path = getenv("HT_TALLY");
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;

	if (fd < 0)
		return;
	/* One write, as several append. */
	dprintf(fd, "%s %u %" PRIu64 "\n", what, stops, stop_max_ns);
	ht_fd_close(fd);
}
