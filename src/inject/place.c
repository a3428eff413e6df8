/* SPDX-License-Identifier: Apache-2.0
 *
 * place.c: see place.h.
 */
#include "inject/place.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/proc.h"
#include "base/fault.h"
#include "base/fd.h"
#include "inject/session.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define PAGE UINT64_C(4096)
#define TABLE_MIN 64		/* the kernel makes no smaller table of files */

int ht_place_files_make(const struct ht_layout *layout, int ring_fd, uint64_t ring_size,
			struct ht_place_files *ret_files, struct ht_err *err)
{
	int fd = memfd_create(HT_CODE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : ht_fd_write_all(fd, layout->file, layout->head_size);

	/* The rest of the block stays a hole. */
	if (r == 0)
		r = ht_errno_of(ftruncate(fd, (off_t)layout->file_size));
	for (unsigned i = 1; i < layout->n_regions && r == 0; i++) {
		uint64_t at = layout->regions[i].file_offset;

		r = ht_errno_of(lseek(fd, (off_t)at, SEEK_SET));
		if (r >= 0)
			r = ht_fd_write_all(fd, layout->file + at, layout->region_size);
	}
	if (r == 0)
		r = ht_errno_of(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW |
							       F_SEAL_WRITE | F_SEAL_SEAL));
	if (r < 0) {
		ht_fd_close(fd);
		return ht_err_set(err, HT_ERR_FAILED, r, "can't make a memory file: %s%s",
				  strerror(-r), ht_err_write_advice(r));
	}
	*ret_files = (struct ht_place_files){ fd, ring_fd, ring_size, NULL };
	return 0;
}

void ht_place_files_fini(struct ht_place_files *files)
{
	files->code = ht_fd_close(files->code);
}

/* The block, its data, the gate, its fork rule, the other regions, the ring. */
#define CALLS (5 + HT_MAX_REGIONS)
/* No mapping of ours that would have to be undone. */
#define NO_SLOT SIZE_MAX

struct placer {
	struct ht_session session;
	struct ht_undo *undo;
	struct ht_syscall calls[CALLS];
	size_t slots[CALLS];	/* in the undo log */
	size_t n;
};

static void add_call(struct placer *p, long nr, const uint64_t args[6])
{
	struct ht_syscall *call = &p->calls[p->n];

	*call = (struct ht_syscall){ .nr = nr };
	memcpy(call->args, args, sizeof(call->args));
	p->slots[p->n++] = NO_SLOT;
}

static int add_map(struct placer *p, ht_addr_t at, uint64_t size, int prot, int flags, int fd,
		   uint64_t offset)
{
	const uint64_t args[6] = { at, size, (uint64_t)prot,
				   (uint64_t)(flags | (at ? MAP_FIXED_NOREPLACE : 0)),
				   (uint64_t)(int64_t)fd, offset };
	struct ht_err *err = p->session.err;
	size_t slot;
	int r = ht_undo_mapping(p->undo, &slot);

	if (r == 0)
		r = ht_fault("place.map");
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "mmap failed in the target: %s",
				  strerror(-r));
	add_call(p, SYS_mmap, args);
	p->calls[p->n - 1].expect = at;
	p->slots[p->n - 1] = slot;
	return 0;
}

static void add_advice(struct placer *p, ht_addr_t addr, uint64_t size, int advice)
{
	add_call(p, SYS_madvise, (uint64_t[6]){ addr, size, (uint64_t)advice });
}

/* The gate lies inside the block, which is ours and is undone as a whole. */
static int add_gate(struct placer *p, ht_addr_t gate)
{
	const uint64_t args[6] = { gate, PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, UINT64_MAX, 0 };
	int r = ht_fault("place.gate");

	if (r < 0)
		return ht_err_set(p->session.err, HT_ERR_FAILED, r,
				  "mmap failed in the target: %s", strerror(-r));
	add_call(p, SYS_mmap, args);
	add_advice(p, gate, PAGE, MADV_WIPEONFORK);
	return 0;
}

static int make_calls(struct placer *p)
{
	int r = ht_session_calls(&p->session, p->calls, p->n);

	/* Those that were made before one that failed, too. */
	for (size_t i = 0; i < p->n; i++) {
		const struct ht_syscall *call = &p->calls[i];

		if (p->slots[i] != NO_SLOT && call->result != HT_SYSCALL_NOT_MADE &&
		    (call->result > 0 || call->result <= -4096))
			ht_undo_set_mapping(p->undo, p->slots[i], (ht_addr_t)call->result,
					    call->args[1]);
	}
	p->n = 0;
	return r;
}

/* With what is to be mapped before it. */
static int map_ring(struct placer *p, int ring, uint64_t size, ht_addr_t *ret_ring)
{
	int r = add_map(p, 0, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
	size_t last = p->n - 1;

	if (r == 0)
		r = make_calls(p);
	if (r < 0)
		return r;
	*ret_ring = (ht_addr_t)p->calls[last].result;
	add_advice(p, *ret_ring, size, MADV_DONTFORK);
	add_advice(p, *ret_ring, size, MADV_DONTDUMP);
	return make_calls(p);
}

/* The journal is in the first piece: a heaptap that is killed from here on has left a note
 * of it all. */
static int add_maps(struct placer *p, const struct ht_layout *l, int code)
{
	const uint64_t writable[6] = { l->data, l->block + l->size - l->data,
				       PROT_READ | PROT_WRITE };
	int r;

	r = add_map(p, l->block, l->size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_NORESERVE,
		    code, 0);
	if (r < 0)
		return r;
	add_call(p, SYS_mprotect, writable);
	r = add_gate(p, l->gate);
	for (unsigned i = 1; i < l->n_regions && r == 0; i++)
		r = add_map(p, l->regions[i].addr, l->region_size, PROT_READ | PROT_EXEC,
			    MAP_PRIVATE, code, l->regions[i].file_offset);
	return r;
}

/* Who it is, and make room in it. The kernel doubles what is asked for, and gives more than
 * net.core.wmem_max to CAP_NET_ADMIN only. */
static int examine_socket(const struct ht_target *target, int remote,
			  struct ht_place_socket *socket)
{
	_cleanup_(ht_fd_closep) int theirs = -1;
	const int half = (int)(socket->wanted / 2);
	socklen_t len = sizeof(int);
	struct stat st;
	int capacity, r;

	r = ht_target_take_fd(target, remote, &theirs);
	if (r == 0)
		r = ht_errno_of(fstat(theirs, &st));
	if (r < 0)
		return r;
	if (setsockopt(theirs, SOL_SOCKET, SO_SNDBUFFORCE, &half, sizeof(half)) < 0)
		(void)setsockopt(theirs, SOL_SOCKET, SO_SNDBUF, &half, sizeof(half));
	r = ht_errno_of(getsockopt(theirs, SOL_SOCKET, SO_SNDBUF, &capacity, &len));
	if (r < 0)
		return r;
	socket->capacity = (uint64_t)capacity;
	socket->id.device = st.st_dev;
	socket->id.inode = st.st_ino;
	return 0;
}

/* As programs that count on low numbers don't meet it, but where the table of files need not
 * grow for it: that takes the kernel a while, and stays. */
static uint64_t high_number(const struct ht_target *target)
{
	struct rlimit limit = { TABLE_MIN, TABLE_MIN };
	uint64_t size = TABLE_MIN;
	char status[HT_PROC_TEXT];

	if (ht_proc_read(ht_target_procfd(target), "status", status, sizeof(status)) == 0)
		(void)ht_proc_field(status, "FDSize:", 10, &size);
	(void)prlimit(ht_target_pid(target), RLIMIT_NOFILE, NULL, &limit);
	size = ht_min(size, (uint64_t)limit.rlim_cur);
	return size - ht_min(size, 1 + size / 8);
}

/* Move the target's end to where it stays. The journal tells of it first. */
static int keep_socket(struct placer *p, const struct ht_layout *l, int remote,
		       struct ht_place_socket *socket)
{
	struct ht_target *target = p->session.target;
	size_t slot;
	long fd;
	int r = examine_socket(target, remote, socket);

	if (r == 0) {
		l->journal->socket = socket->id.inode;
		r = ht_target_write(target, l->block + offsetof(struct ht_journal, socket),
				    &l->journal->socket, sizeof(l->journal->socket));
	}
	if (r == 0)
		r = ht_undo_socket(p->undo, socket->id.inode, &slot);
	if (r == 0)
		r = ht_fault("place.socket");
	if (r < 0)
		return ht_err_set(p->session.err, HT_ERR_FAILED, r,
				  "can't make a socket in the target: %s", strerror(-r));
	r = ht_session_call(&p->session, SYS_fcntl,
			    (uint64_t[6]){ (uint64_t)remote, F_DUPFD_CLOEXEC,
					   high_number(target) }, &fd);
	if (r < 0)
		return r;
	ht_undo_set_socket(p->undo, slot, (int)fd);
	socket->id.fd = (uint64_t)fd;
	return 0;
}

static int place_shared(struct placer *p, const struct ht_layout *l,
			const struct ht_place_files *files, ht_addr_t *ret_ring)
{
	int fds[2] = { files->code, files->ring };
	int r = ht_session_pass(&p->session, fds, 2, fds);

	if (r == 0)
		r = add_maps(p, l, fds[0]);
	return r < 0 ? r : map_ring(p, fds[1], files->ring_size, ret_ring);
}

static int place_private(struct placer *p, const struct ht_layout *l,
			 const struct ht_place_files *files)
{
	struct ht_place_socket *socket = files->socket;
	int code, remote;
	int r = ht_session_pass_and_keep(&p->session, &files->code, 1, &code, &socket->local,
					 &remote);

	if (r == 0)
		r = add_maps(p, l, code);
	if (r == 0)
		r = make_calls(p);
	if (r == 0)
		r = keep_socket(p, l, remote, socket);
	if (r < 0)
		socket->local = ht_fd_close(socket->local);
	return r;
}

int ht_place(struct ht_target *target, size_t i, const struct ht_layout *layout,
	     const struct ht_place_files *files, struct ht_undo *undo, ht_addr_t *ret_ring,
	     struct ht_err *err)
{
	struct placer p = { .undo = undo };
	struct ht_session *s = &p.session;
	ht_addr_t ring = layout->ring;
	int r, end;

	r = ht_session_begin(s, target, i, err);
	if (r < 0)
		return r;
	if (files->socket)
		r = place_private(&p, layout, files);
	else
		r = place_shared(&p, layout, files, &ring);
	if (r < 0) {
		/* The first error is the one to tell. */
		s->err = NULL;
		(void)!ht_undo_play(undo, s->remote, NULL);
	}
	end = ht_session_end(s);
	if (r == 0 && end < 0) {
		/* With another thread: this one is gone, or it has something open. */
		(void)!ht_place_undo(target, i, undo, NULL);
		return end;
	}
	if (r == 0)
		*ret_ring = ring;
	return r;
}

int ht_place_undo(struct ht_target *target, size_t i, struct ht_undo *undo,
		  struct ht_err *err)
{
	struct ht_remote *remote;
	int r, end;

	r = ht_remote_begin(target, i, 0, &remote, err);
	if (r < 0) {
		/* What needs no calls. */
		(void)!ht_undo_play(undo, NULL, NULL);
		return r;
	}
	r = ht_undo_play(undo, remote, err);
	end = ht_remote_end(remote);
	return r < 0 ? r : end;
}
