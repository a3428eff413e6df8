/* SPDX-License-Identifier: Apache-2.0
 *
 * undo.c: see undo.h.
 */
#include "attach/undo.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/fault.h"

enum undo_kind {
	UNDO_TEXT,
	UNDO_MAPPING,
	UNDO_SOCKET,
};

struct undo_entry {
	enum undo_kind kind;
	bool set;		/* MAPPING, SOCKET: it is known where */
	int fd;			/* SOCKET */
	uint64_t inode;
	ht_addr_t addr;
	size_t len;
	uint8_t original[8];	/* TEXT */
	uint8_t patched[8];
};

struct ht_undo {
	struct ht_target *target;
	struct undo_entry *entries;
	size_t n, cap;
	bool failed;
};

static const char *const kind_names[] = {
	[UNDO_TEXT] = "code", [UNDO_MAPPING] = "a mapping",
	[UNDO_SOCKET] = "a socket",
};

int ht_undo_new(struct ht_target *target, size_t entries, struct ht_undo **ret_undo)
{
	struct ht_undo *undo = calloc(1, sizeof(*undo));

	if (!undo)
		return -ENOMEM;
	undo->target = target;
	undo->entries = calloc(ht_max(entries, (size_t)1), sizeof(*undo->entries));
	if (!undo->entries) {
		ht_undo_free(undo);
		return -ENOMEM;
	}
	undo->cap = entries;
	*ret_undo = undo;
	return 0;
}

struct ht_undo *ht_undo_free(struct ht_undo *undo)
{
	if (!undo)
		return NULL;
	free(undo->entries);
	free(undo);
	return NULL;
}

static struct undo_entry *add(struct ht_undo *undo, enum undo_kind kind)
{
	struct undo_entry *entry;

	if (undo->n == undo->cap)
		return NULL;
	entry = &undo->entries[undo->n++];
	memset(entry, 0, sizeof(*entry));
	entry->kind = kind;
	return entry;
}

int ht_undo_text(struct ht_undo *undo, ht_addr_t addr, const void *patched, size_t len)
{
	uint8_t original[8];
	struct undo_entry *entry;
	int r;

	if (len > sizeof(original))
		return -EINVAL;
	if (undo->n == undo->cap)
		return -ENOSPC;
	r = ht_target_read(undo->target, addr, original, sizeof(original));
	if (r < 0)
		return r;
	entry = add(undo, UNDO_TEXT);
	entry->addr = addr;
	entry->len = len;
	memcpy(entry->original, original, sizeof(original));
	memcpy(entry->patched, patched, len);
	return 0;
}

int ht_undo_mapping(struct ht_undo *undo, size_t *ret_slot)
{
	if (!add(undo, UNDO_MAPPING))
		return -ENOSPC;
	*ret_slot = undo->n - 1;
	return 0;
}

void ht_undo_set_mapping(struct ht_undo *undo, size_t slot, ht_addr_t addr, size_t len)
{
	undo->entries[slot].addr = addr;
	undo->entries[slot].len = len;
	undo->entries[slot].set = true;
}

int ht_undo_socket(struct ht_undo *undo, uint64_t inode, size_t *ret_slot)
{
	struct undo_entry *entry = add(undo, UNDO_SOCKET);

	if (!entry)
		return -ENOSPC;
	entry->inode = inode;
	*ret_slot = undo->n - 1;
	return 0;
}

void ht_undo_set_socket(struct ht_undo *undo, size_t slot, int fd)
{
	undo->entries[slot].fd = fd;
	undo->entries[slot].set = true;
}

bool ht_undo_is_clean(const struct ht_undo *undo)
{
	return !undo->n && !undo->failed;
}

void ht_undo_forget(struct ht_undo *undo)
{
	undo->n = 0;
}

static int undo_text(struct ht_undo *undo, const struct undo_entry *entry)
{
	uint8_t now[8];
	uint64_t word;
	int r = ht_target_read(undo->target, entry->addr, now, sizeof(now));

	if (r < 0)
		return r;
	/* Not done yet, or patched over by somebody else, whose patch leads through ours. */
	if (memcmp(now, entry->patched, entry->len) != 0)
		return memcmp(now, entry->original, entry->len) ? -EEXIST : 0;
	memcpy(now, entry->original, entry->len);
	memcpy(&word, now, sizeof(word));
	return ht_target_poke(undo->target, entry->addr, word);
}

static int call(struct ht_remote *remote, long nr, const uint64_t args[6])
{
	long result;
	int r;

	if (!remote)
		return -EBUSY;
	r = ht_remote_syscall(remote, nr, args, &result);
	return r < 0 ? r : (int)result;
}

static int undo_mapping(const struct undo_entry *entry, struct ht_remote *remote)
{
	const uint64_t args[6] = { entry->addr, entry->len };

	return entry->set ? call(remote, SYS_munmap, args) : 0;
}

/* The program may have closed it meanwhile, and have another file by that number. */
static int undo_socket(struct ht_undo *undo, const struct undo_entry *entry,
		       struct ht_remote *remote)
{
	const uint64_t args[6] = { (uint64_t)entry->fd };

	if (!entry->set || !ht_target_is_socket(undo->target, entry->fd, entry->inode))
		return 0;
	return call(remote, SYS_close, args);
}

static int undo_entry(struct ht_undo *undo, const struct undo_entry *entry,
		      struct ht_remote *remote)
{
	int r = ht_fault("undo.step");

	if (r < 0)
		return r;
	switch (entry->kind) {
	case UNDO_TEXT:
		return undo_text(undo, entry);
	case UNDO_MAPPING:
		return undo_mapping(entry, remote);
	case UNDO_SOCKET:
		break;
	}
	return undo_socket(undo, entry, remote);
}

int ht_undo_play(struct ht_undo *undo, struct ht_remote *remote, struct ht_err *err)
{
	int first = 0;

	while (undo->n) {
		const struct undo_entry *entry = &undo->entries[--undo->n];
		int r;

		if (first && entry->kind == UNDO_MAPPING)
			continue;
		r = undo_entry(undo, entry, remote);
		if (r < 0 && !first) {
			first = r;
			undo->failed |= r != -ESRCH;
			(void)ht_err_set(err, r == -ESRCH ? HT_ERR_GONE : HT_ERR_FAILED, r,
					 "can't take back %s in %d (%s): %s",
					 kind_names[entry->kind],
					 ht_target_pid(undo->target),
					 ht_target_name(undo->target), strerror(-r));
		}
	}
	return first;
}
