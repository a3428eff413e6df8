/* SPDX-License-Identifier: Apache-2.0
 *
 * room.c: see room.h.
 */
#include "inject/room.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "attach/facts.h"
#include "attach/proc.h"
#include "base/fd.h"

/* A tap has about ten mappings, and 4 MiB besides the ring. */
#define SPARE_MAPPINGS 64
#define SPARE_BYTES (UINT64_C(16) << 20)
/* A socketpair, and two files that come through it. */
#define FILES 4
/* Room to make for ours, and for what the target opens meanwhile. */
#define SPARE_FILES 64
#define MIB (UINT64_C(1) << 20)

static int check_mappings(const struct ht_target *target, const struct ht_space *space,
			  struct ht_err *err)
{
	size_t n = ht_maps_count(ht_space_maps(space));
	char text[32];
	size_t max;

	if (ht_proc_read(AT_FDCWD, "/proc/sys/vm/max_map_count", text, sizeof(text)) < 0)
		return 0;
	max = strtoul(text, NULL, 10);
	if (n + SPARE_MAPPINGS <= max)
		return 0;
	return ht_err_set(err, HT_ERR_FAILED, -ENOSPC,
			  "can't tap %d (%s): it has %zu memory mappings and may have %zu, too few more for heaptap and itself; allow more: sysctl vm.max_map_count=%zu",
			  ht_target_pid(target), ht_target_name(target), n, max, 2 * max);
}

int ht_room_no_file(const struct ht_target *target, struct ht_err *err)
{
	pid_t pid = ht_target_pid(target);
	struct rlimit limit = { 0, 0 };

	(void)prlimit(pid, RLIMIT_NOFILE, NULL, &limit);
	limit.rlim_cur += SPARE_FILES;
	return ht_err_set(err, HT_ERR_FAILED, -EMFILE,
			  "can't tap %d (%s): it has as many files open as it may, and heaptap needs some more for a moment; let it: prlimit --pid %d --nofile=%ju:%ju",
			  pid, ht_target_name(target), pid, (uintmax_t)limit.rlim_cur,
			  (uintmax_t)ht_max(limit.rlim_cur, limit.rlim_max));
}

/* A target with a leak of files is one that people look at. */
static int check_files(const struct ht_target *target, struct ht_err *err)
{
	int fd = openat(ht_target_procfd(target), "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct rlimit limit;
	struct dirent *entry;
	rlim_t used = 0;

	if (!dir) {
		ht_fd_close(fd);
		return 0;	/* it is going, as others will see */
	}
	if (prlimit(ht_target_pid(target), RLIMIT_NOFILE, NULL, &limit) < 0)
		limit.rlim_cur = RLIM_INFINITY;
	/* It may have some above the limit, from before that was set. */
	while ((entry = readdir(dir)))
		used += *entry->d_name != '.' &&
			strtoul(entry->d_name, NULL, 10) < limit.rlim_cur;
	closedir(dir);
	return limit.rlim_cur - used < FILES ? ht_room_no_file(target, err) : 0;
}

int ht_room_check(const struct ht_target *target, const struct ht_space *space,
		  uint64_t ring_size, struct ht_err *err)
{
	static const struct {
		int resource;
		const char *field, *what, *option;
		bool ring;
	} limits[] = {
		{ RLIMIT_AS, "VmSize:", "address space", "as", true },
		/* Of private memory. */
		{ RLIMIT_DATA, "VmData:", "data", "data", false },
	};
	pid_t pid = ht_target_pid(target);
	char status[HT_PROC_TEXT];
	int r;

	if (ht_proc_read(ht_target_procfd(target), "status", status, sizeof(status)) < 0)
		return 0;	/* it is going, as others will see */
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		uint64_t need = SPARE_BYTES + (limits[i].ring ? ring_size : 0);
		uint64_t kib, left;
		struct rlimit limit;

		if (prlimit(pid, limits[i].resource, NULL, &limit) < 0 ||
		    limit.rlim_cur == RLIM_INFINITY ||
		    !ht_proc_field(status, limits[i].field, 10, &kib))
			continue;
		left = limit.rlim_cur - ht_min((uint64_t)limit.rlim_cur, 1024 * kib);
		if (left >= need)
			continue;
		return ht_err_set(err, HT_ERR_FAILED, -ENOSPC,
				  "can't tap %d (%s): its limit of %s leaves %ju MiB, and heaptap needs %ju of them%s; let it: prlimit --pid %d --%s=%ju:",
				  pid, ht_target_name(target), limits[i].what,
				  (uintmax_t)(left / MIB), (uintmax_t)(need / MIB),
				  limits[i].ring ? " (less with a smaller --ring-size)" : "",
				  pid, limits[i].option,
				  (uintmax_t)(1024 * kib + 2 * need));
	}
	r = check_mappings(target, space, err);
	return r < 0 ? r : check_files(target, err);
}
