/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/place.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/remote.h"
#include "base/clock.h"
#include "base/fd.h"
#include "ht_check.h"
#include "ht_snapshot.h"
#include "ht_target.h"
#include "inject/cure.h"

#define RING_SIZE 65536

static struct ht_test_target t;
static struct ht_target *target;
static struct ht_modules *modules;
static struct ht_space *space;
static struct ht_plan *plan;
static struct ht_hook_image image;
static struct ht_layout *layout;
static struct ht_place_files files;
static struct ht_undo *undo;
static struct ht_snapshot *before;
static struct ht_err err;

static void start_with(uint64_t private_size)
{
	const struct ht_layout_options options = { .ring_size = private_size };
	int ring = memfd_create(HT_RING_NAME, MFD_CLOEXEC);

	ck_ok(ht_test_target_start(&t, "keeper", NULL));
	ck_ok(ht_snapshot_take(t.pid, &before));
	ck_ok(ht_target_open(t.pid, &target, NULL));
	ck_ok(ht_modules_new(&modules));
	ck_ok(ht_space_new(ht_target_procfd(target), ht_target_memfd(target), modules, &space));
	ck_ok(ht_plan_new(space, ht_target_memfd(target), &plan, NULL));
	ck_ok(ht_hook_image_load(&image, NULL));
	ck_ok(ht_layout_new(ht_space_maps(space), ht_target_memfd(target), plan, &image,
			    &options, &layout, NULL));
	ck_ok(ht_undo_new(target, 32, &undo));
	ck_assert_int_eq(ftruncate(ring, RING_SIZE), 0);
	ck_ok(ht_place_files_make(layout, ring, RING_SIZE, &files, NULL));
}

static void start(void)
{
	start_with(0);
}

static size_t stop_target(void)
{
	size_t victim;

	ck_ok(ht_target_stop(target, ht_deadline_ns(20 * HT_NS_PER_SEC), NULL));
	ck_ok(ht_find_victim(target, true, &victim));
	return victim;
}

static void stop(void)
{
	struct ht_buf why = HT_BUF_INIT;
	struct ht_snapshot *after;
	char line[64];

	ht_target_resume(target);
	ck_ok(ht_test_target_ask(&t, "check", line, sizeof(line)));
	ck_assert_msg(!strncmp(line, "ok", 2), "%s", line);
	ck_ok(ht_snapshot_take(t.pid, &after));
	ck_assert_msg(!ht_snapshot_compare(before, after, 0, &why), "%s", why.data);
	ck_assert_uint_eq(ht_snapshot_leftovers(after), 0);
	ht_snapshot_free(before);
	ht_snapshot_free(after);
	ht_fd_close(files.ring);
	ht_place_files_fini(&files);
	ht_undo_free(undo);
	ht_layout_free(layout);
	ht_hook_image_fini(&image);
	ht_plan_free(plan);
	ht_space_free(space);
	ht_modules_free(modules);
	ht_target_close(target);
	ck_ok(ht_test_target_stop(&t, NULL));
}

static unsigned prot_at(ht_addr_t addr)
{
	const struct ht_area *area;

	ck_ok(ht_space_refresh(space));
	area = ht_maps_find(ht_space_maps(space), addr);
	ck_assert_ptr_nonnull(area);
	return area->prot;
}

START_TEST(everything_is_where_it_was_planned)
{
	static struct ht_journal journal;
	uint64_t word = 1, magic;
	ht_addr_t ring = 0;
	size_t victim;

	start();
	victim = stop_target();
	ck_ok(ht_place(target, victim, layout, &files, undo, &ring, &err));
	ck_ok(ht_target_read(target, layout->block, &journal, sizeof(journal)));
	ck_assert_mem_eq(&journal, layout->journal, sizeof(journal));
	ck_ok(ht_target_read(target, layout->gate, &word, sizeof(word)));
	ck_assert_uint_eq(word, HT_GATE_NONE);
	ck_ok(ht_target_read(target, layout->hook + image.config, &magic, sizeof(magic)));
	ck_assert_uint_eq(magic, HT_HOOK_MAGIC);
	ck_assert_uint_eq(prot_at(layout->block), HT_PROT_READ | HT_PROT_EXEC);
	ck_assert_uint_eq(prot_at(layout->data), HT_PROT_READ | HT_PROT_WRITE);
	ck_assert_uint_eq(prot_at(layout->gate), HT_PROT_READ | HT_PROT_WRITE);
	ck_assert_uint_eq(prot_at(layout->block + layout->size - 1),
			  HT_PROT_READ | HT_PROT_WRITE);
	ck_assert_uint_eq(prot_at(ring), HT_PROT_READ | HT_PROT_WRITE | HT_PROT_SHARED);
	/* The tables are empty, and its own. */
	ck_ok(ht_target_read(target, layout->set, &word, sizeof(word)));
	ck_assert_uint_eq(word, 0);
	word = 7;
	ck_ok(ht_target_write(target, layout->set, &word, sizeof(word)));
	ck_ok(ht_place_undo(target, victim, undo, &err));
	stop();
}
END_TEST

START_TEST(a_place_that_is_taken)
{
	/* Somebody's page in the middle. */
	uint64_t args[6] = { 0, 4096, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, UINT64_MAX, 0 };
	uint64_t word = 0x5a5a;
	struct ht_remote *remote;
	ht_addr_t ring = 0;
	size_t victim;
	long result;

	start();
	args[0] = layout->block + (layout->size / 2 & ~UINT64_C(4095));
	victim = stop_target();
	ck_ok(ht_remote_begin(target, victim, 0, &remote, NULL));
	ck_ok(ht_remote_syscall(remote, SYS_mmap, args, &result));
	ck_assert_uint_eq((uint64_t)result, args[0]);
	ck_ok(ht_remote_end(remote));
	ck_ok(ht_target_write(target, args[0], &word, sizeof(word)));
	ck_assert_int_eq(ht_place(target, victim, layout, &files, undo, &ring, &err), -EEXIST);
	word = 0;
	ck_ok(ht_target_read(target, args[0], &word, sizeof(word)));
	ck_assert_uint_eq(word, 0x5a5a);
	ck_ok(ht_remote_begin(target, victim, 0, &remote, NULL));
	ck_ok(ht_remote_syscall(remote, SYS_munmap, args, &result));
	ck_ok(ht_remote_end(remote));
	stop();
}
END_TEST

static bool is_there(const struct ht_place_socket *socket)
{
	return ht_target_is_socket(target, (int)socket->id.fd, socket->id.inode);
}

/* Instead of a ring: a place in the block for records to be made, and one file. */
START_TEST(a_socket_instead)
{
	struct ht_place_socket socket = { .wanted = 1 << 20, .local = -1 };
	uint64_t word = 7, noted = 0;
	ht_addr_t ring = 0;
	char c = 0;
	int copy;
	size_t victim;

	start_with(1 << 20);
	files.socket = &socket;
	victim = stop_target();
	ck_ok(ht_place(target, victim, layout, &files, undo, &ring, &err));
	ck_assert_uint_eq(ring, layout->ring);
	ck_assert_uint_ge(ring, layout->set);
	ck_assert_uint_eq(ring + (1 << 20), layout->block + layout->size);
	ck_assert_uint_eq(prot_at(ring + (1 << 20) - 1), HT_PROT_READ | HT_PROT_WRITE);
	ck_ok(ht_target_read(target, ring, &word, sizeof(word)));
	ck_assert_uint_eq(word, 0);
	/* It's as high as it may be, the journal tells of it, and what is sent comes. */
	ck_assert_uint_ge(socket.id.fd, 30);
	ck_assert(is_there(&socket));
	ck_assert_uint_eq(layout->journal->socket, socket.id.inode);
	ck_ok(ht_target_read(target, layout->block + offsetof(struct ht_journal, socket), &noted,
			     sizeof(noted)));
	ck_assert_uint_eq(noted, socket.id.inode);
	ck_assert_uint_gt(socket.capacity, 4096);
	ck_ok(ht_target_take_fd(target, (int)socket.id.fd, &copy));
	ck_assert_int_eq(send(copy, "x", 1, 0), 1);
	ck_assert_int_eq(recv(socket.local, &c, 1, MSG_DONTWAIT), 1);
	ck_assert_int_eq(c, 'x');
	ht_fd_close(copy);
	ck_ok(ht_place_undo(target, victim, undo, &err));
	ck_assert(!is_there(&socket));
	ht_fd_close(socket.local);
	stop();
}
END_TEST

static uint64_t size_of_target(void)
{
	unsigned long pages = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", t.pid);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%lu", &pages), 1);
	fclose(f);
	return (uint64_t)pages * 4096;
}

/* Room for the borrowed stack, then for the block too, but not for all. */
START_TEST(out_of_address_space)
{
	static const uint64_t rooms[] = { 256 << 10, 4 << 20 };
	struct rlimit old, limit;
	ht_addr_t ring = 0;
	size_t victim;

	start();
	ck_assert_int_eq(prlimit(t.pid, RLIMIT_AS, NULL, &old), 0);
	limit = old;
	ck_assert_int_eq(ftruncate(files.ring, 8 << 20), 0);
	files.ring_size = 8 << 20;
	for (size_t i = 0; i < 2; i++) {
		limit.rlim_cur = size_of_target() + rooms[i];
		ck_assert_int_eq(prlimit(t.pid, RLIMIT_AS, &limit, NULL), 0);
		victim = stop_target();
		ck_assert_int_eq(ht_place(target, victim, layout, &files, undo, &ring, &err),
				 -ENOMEM);
		ck_assert_str_eq(err.text, "mmap failed in the target: Cannot allocate memory");
		ht_target_resume(target);
	}
	ck_assert_int_eq(prlimit(t.pid, RLIMIT_AS, &old, NULL), 0);
	stop();
}
END_TEST

int main(void)
{
	return ht_check_run("place", (const TTest *const[]){
		everything_is_where_it_was_planned, a_place_that_is_taken, a_socket_instead,
		out_of_address_space, NULL });
}
