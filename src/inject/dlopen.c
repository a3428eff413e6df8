/* SPDX-License-Identifier: Apache-2.0
 *
 * dlopen.c: see dlopen.h.
 *
 * dlopen takes the loader's lock and allocates. A thread that holds either lock, or is in
 * the middle of changing what they guard, must not be borrowed for it: its whole stack is
 * walked to a known end and no frame may be in the loader, an allocator, or one of the
 * functions below. All other threads run meanwhile, so a lock that one of them holds is
 * given back.
 */
#include "inject/dlopen.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/vec.h"
#include "heaptap/wire.h"
#include "inject/cure.h"
#include "inject/session.h"
#include "unwind/live.h"

#define PICKY_NS HT_NS_PER_SEC	/* without the main thread: for it come signals of the process
				 * that others see when it is traced alone */
#define PATIENCE_NS (5 * HT_NS_PER_SEC)
#define CALL_NS (5 * HT_NS_PER_SEC)
#define STOP_NS (100 * HT_NS_PER_MS)
#define MAX_THREADS 4096
#define MAX_MODULES 65536
/* Of struct r_debug, on every 64-bit Linux. */
#define R_MAP_OFFSET 8
#define R_STATE_OFFSET 24

/* Besides the allocators' own entries. Plain waits (poll, futex, ...) are not here. */
static const char *const unsafe_functions[] = {
	"dlopen", "dlmopen", "dlclose", "dlsym", "dlvsym", "dladdr", "dladdr1", "dlinfo",
	"dl_iterate_phdr", "__tls_get_addr", "_dl_find_object", "pthread_create",
	"pthread_exit", "thrd_create", "thrd_exit", "fork", "_Fork", "vfork", "posix_spawn",
	"posix_spawnp", "system", "popen", "exit", "quick_exit", "__cxa_finalize",
	"__cxa_atexit", "__cxa_thread_atexit_impl", "__register_atfork", "malloc_trim",
	"mallopt", "malloc_info", "mallinfo2", "mallinfo", "setlocale", "iconv_open",
	"getaddrinfo", "getpwnam_r", "getpwuid_r", "__libc_freeres",
};

struct code_range {
	const struct ht_module *module;
	uint64_t start, end;
};

/* What the target has to load and unload by; addresses are 0 where there is none. */
struct loader {
	bool glibc, musl;	/* a dynamic loader of theirs is mapped */
	bool audited;		/* by a library that LD_AUDIT names */
	bool proc;		/* there is a /proc in its root */
	ht_addr_t dlopen, dlclose;
	ht_addr_t errno_location;
	ht_addr_t r_debug;
};

struct finder;
typedef int (*act_fn)(struct finder *f, struct ht_session *s);

struct finder {
	act_fn act;		/* what the safe thread is to do */
	uint64_t handle;	/* that dlopen gave */
	ht_addr_t base;
	struct ht_target *target;
	struct ht_space *space;
	struct ht_live *live;
	ht_vec(struct code_range) unsafe;
	struct loader loader;
	pid_t tids[MAX_THREADS];
	struct ht_stack stack;
	bool borrowable;	/* some thread could be, if not for the loader */
	const char *why_not;	/* otherwise: what the thread @why_not_tid does */
	pid_t why_not_tid;
};

static int add_unsafe(struct finder *f, const struct ht_module *module, const char *name)
{
	struct ht_elf_symbol symbol;
	struct code_range *range;

	if (ht_elf_symbol(module, name, &symbol) < 0 || symbol.object)
		return 0;
	range = ht_vec_push(&f->unsafe);
	if (!range)
		return -ENOMEM;
	*range = (struct code_range){ module, symbol.value,
				      symbol.value + ht_max(symbol.size, (uint64_t)1) };
	return 0;
}

static ht_addr_t lookup(const struct ht_mapping *mapping, const char *name)
{
	struct ht_elf_symbol symbol;

	if (ht_elf_symbol(mapping->module, name, &symbol) < 0)
		return 0;
	return symbol.value + mapping->bias;
}

static bool is_loader(const struct ht_module *module)
{
	return !strncmp(ht_module_name(module), "ld-linux", 8) ||
	       !strncmp(ht_module_name(module), "ld.so", 5) ||
	       !strncmp(ht_module_name(module), "ld-2.", 5);
}

/* musl's is also its libc, and called either way. */
static bool is_musl(const struct ht_module *module)
{
	return !strncmp(ht_module_name(module), "ld-musl-", 8) ||
	       !strcmp(ht_module_name(module), "libc.so");
}

/* The link leads nowhere for us if that /proc is of another pid name space. */
static bool has_proc(const struct ht_target *target)
{
	_cleanup_(ht_fd_closep) int root = openat(ht_target_procfd(target), "root",
						  O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	return root < 0 || !fstatat(root, "proc/thread-self", &st, AT_SYMLINK_NOFOLLOW);
}

static void find_loader(const struct ht_target *target, const struct ht_space *space,
			struct loader *ret_loader)
{
	const struct ht_module *last = NULL;
	struct loader l = { .proc = has_proc(target) };

	for (size_t i = 0; i < ht_space_count(space); i++) {
		const struct ht_mapping *mapping = ht_space_at(space, i);

		if (!mapping->module || mapping->module == last)
			continue;
		last = mapping->module;
		l.musl |= is_musl(last);
		l.audited |= lookup(mapping, "la_version") != 0;
		if (is_loader(last)) {
			l.glibc = true;
			l.r_debug = lookup(mapping, "_r_debug");
			continue;
		}
		if (!l.dlopen)
			l.dlopen = lookup(mapping, "dlopen");
		if (!l.dlclose)
			l.dlclose = lookup(mapping, "dlclose");
		if (!l.errno_location)
			l.errno_location = lookup(mapping, "__errno_location");
	}
	*ret_loader = l;
}

static const char *loader_obstacle(const struct loader *l)
{
	if (l->musl && !l->glibc)
		return "musl never unloads what it loaded";
	if (!l->glibc)
		return "a static program has no loader";
	if (!l->dlopen || !l->dlclose)
		return "it has no dlopen (before glibc 2.34 that is in libdl)";
	if (!l->r_debug)
		return "its loader doesn't tell what it loaded";
	return NULL;
}

/* What is in the way of loading, but not of unloading. */
static const char *load_obstacle(const struct loader *l)
{
	const char *why = loader_obstacle(l);

	if (!why && l->audited)
		why = "an audit library (LD_AUDIT) would see the hook";
	if (!why && !l->proc)
		why = "it has no /proc, through which the hook is loaded";
	return why;
}

const char *ht_dlopen_obstacle(const struct ht_target *target, const struct ht_space *space)
{
	struct loader loader;

	find_loader(target, space, &loader);
	return load_obstacle(&loader);
}

static int study_module(struct finder *f, const struct ht_module *module)
{
	struct code_range *range;
	int r = 0;

	if (is_loader(module)) {
		range = ht_vec_push(&f->unsafe);
		if (!range)
			return -ENOMEM;
		*range = (struct code_range){ module, 0, UINT64_MAX };
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(unsafe_functions) && r == 0; i++)
		r = add_unsafe(f, module, unsafe_functions[i]);
	return r;
}

static int study(struct finder *f, const struct ht_plan *plan)
{
	const struct ht_module *last = NULL;
	int r = 0;

	find_loader(f->target, f->space, &f->loader);
	for (size_t i = 0; i < ht_space_count(f->space) && r == 0; i++) {
		const struct ht_mapping *mapping = ht_space_at(f->space, i);

		if (!mapping->module || mapping->module == last)
			continue;
		last = mapping->module;
		r = study_module(f, last);
	}
	for (size_t i = 0; i < plan->n_sites && r == 0; i++)
		r = add_unsafe(f, plan->sites[i].module, plan->sites[i].kind->name);
	return r;
}

static bool frame_unsafe(const struct finder *f, const struct ht_frame *frame)
{
	const struct code_range *range;

	ht_vec_foreach(range, &f->unsafe)
		if (ht_module_id(range->module) == frame->module &&
		    frame->offset >= range->start && frame->offset < range->end)
			return true;
	return false;
}

static void note_why_not(struct finder *f)
{
	const char *why = ht_target_unborrowable(f->target, 0);

	if (!why) {
		f->borrowable = true;
	} else if (!f->why_not) {
		f->why_not = why;
		f->why_not_tid = ht_target_tid(f->target, 0);
	}
}

/* The one stopped thread may be borrowed for dlopen. */
static bool safe(struct finder *f)
{
	uint32_t state;

	if (!ht_target_hijackable(f->target, 0)) {
		note_why_not(f);
		return false;
	}
	f->borrowable = true;
	if (ht_target_read(f->target, f->loader.r_debug + R_STATE_OFFSET, &state,
			   sizeof(state)) < 0 ||
	    state != 0)
		return false;
	if (ht_live_thread(f->live, &f->stack) < 0 || f->stack.end != HT_STACK_COMPLETE)
		return false;
	for (uint32_t i = 0; i < f->stack.n_frames; i++)
		if (frame_unsafe(f, &f->stack.frames[i]))
			return false;
	return true;
}

/* The loader remembers files by path and would give back an old one for a known path:
 * spell it in a way that it hasn't seen. The folder of the process is empty when its main
 * thread has ended. */
static void spell(const struct finder *f, int fd, char *path, size_t size)
{
	const struct ht_maps *maps = ht_space_maps(f->space);
	int len = snprintf(path, size, "/proc/thread-self/fd/");
	size_t loaded = 0;

	for (size_t i = 0; i < ht_maps_count(maps); i++)
		loaded += !strcmp(ht_maps_at(maps, i)->path, "/memfd:" HT_HOOK_NAME);
	while (loaded-- && (size_t)len + 16 < size)
		len += snprintf(path + len, size - (size_t)len, "./");
	snprintf(path + len, size - (size_t)len, "%d", fd);
}

/* Call @fn and leave errno as it was. */
static int call_keeping_errno(struct finder *f, struct ht_session *s, ht_addr_t fn,
			      const uint64_t args[6], uint64_t *ret_result)
{
	uint64_t deadline = ht_deadline_ns(CALL_NS);
	uint64_t errno_at = 0;
	uint32_t saved;
	int r = 0;

	if (f->loader.errno_location)
		r = ht_remote_call(s->remote, f->loader.errno_location, (uint64_t[6]){ 0 },
				   deadline, &errno_at);
	if (r == 0 && errno_at)
		r = ht_target_read(f->target, errno_at, &saved, sizeof(saved));
	if (r == 0)
		r = ht_fault("dlopen.call");
	if (r == 0)
		r = ht_remote_call(s->remote, fn, args, deadline, ret_result);
	if (r == 0 && errno_at)
		r = ht_target_write(f->target, errno_at, &saved, sizeof(saved));
	return r;
}

static int write_hook(int fd, struct ht_err *err)
{
	size_t len;
	const uint8_t *bytes = ht_hook_file(&len);
	int r = ht_fd_write_all(fd, bytes, len);

	if (r == 0)
		r = ht_errno_of(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW |
							       F_SEAL_WRITE | F_SEAL_SEAL));
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "can't write a memory file: %s%s",
				  strerror(-r), ht_err_write_advice(r));
	return 0;
}

/* Of struct link_map, on every 64-bit Linux; the loader's handle is its address. */
struct link {
	uint64_t addr, name, dynamic, next, prev;
};

/* Where the hook was loaded. The name in the loader's list (@path) leads to a file for as long
 * as it is open. Debuggers open it, and so do programs that write their own backtraces; they
 * get whatever file of theirs has that number then, and may wait for ever to read a pipe. */
static int read_link(struct finder *f, const char *path)
{
	static const char harmless[] = "/memfd:" HT_HOOK_NAME;
	char name[512] = "";
	struct link link;
	size_t len = strlen(path) + 1;
	int r = ht_target_read(f->target, f->handle, &link, sizeof(link));

	if (r == 0)
		f->base = link.addr;
	if (r == 0)
		r = ht_target_read(f->target, link.name, name, len);
	if (r == 0 && sizeof(harmless) <= len && !strcmp(name, path))
		r = ht_target_write(f->target, link.name, harmless, sizeof(harmless));
	return r;
}

static int do_dlopen(struct finder *f, struct ht_session *s)
{
	_cleanup_(ht_fd_closep) int fd = -1;
	char path[512];
	ht_addr_t path_at;
	int remote_fd, r;

	r = ht_session_make_file(s, HT_HOOK_NAME, &fd, &remote_fd);
	if (r == 0)
		r = write_hook(fd, s->err);
	if (r < 0)
		return r;
	spell(f, remote_fd, path, sizeof(path));
	path_at = ht_remote_scratch(s->remote, sizeof(path));
	if (!path_at)
		return -ENOMEM;
	r = ht_target_write(f->target, path_at, path, strlen(path) + 1);
	if (r == 0)
		r = call_keeping_errno(f, s, f->loader.dlopen,
				       (uint64_t[6]){ path_at, RTLD_NOW | RTLD_LOCAL },
				       &f->handle);
	if (r < 0)
		return ht_err_set(s->err, HT_ERR_FAILED, r, "dlopen in the target: %s",
				  strerror(-r));
	if (!f->handle)
		return ht_err_set(s->err, HT_ERR_UNSUPPORTED, -ENOEXEC,
				  "can't tap %d (%s) by dlopen: its loader refused the hook; use --loader=map",
				  ht_target_pid(f->target), ht_target_name(f->target));
	return read_link(f, path);
}

static int do_dlclose(struct finder *f, struct ht_session *s)
{
	uint64_t result;
	int r = call_keeping_errno(f, s, f->loader.dlclose, (uint64_t[6]){ f->handle },
				   &result);

	if (r < 0)
		return ht_err_set(s->err, HT_ERR_FAILED, r, "dlclose in the target: %s",
				  strerror(-r));
	return 0;
}

/* Try the thread @tid. -EAGAIN: not safe now. */
static int try_thread(struct finder *f, pid_t tid, struct ht_err *err)
{
	struct ht_session session;
	int r, end;

	r = ht_live_expect(f->live, tid);
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "out of memory");
	r = ht_target_stop_thread(f->target, tid, ht_deadline_ns(STOP_NS), err);
	if (r < 0)
		return -EAGAIN;
	/* Nobody else runs then: a lock that another thread holds would never come free. */
	if (ht_target_is_job_stopped(f->target, 0))
		r = ht_err_set(err, HT_ERR_FAILED, -ENOTSUP,
			       "can't borrow a thread of %d (%s) for the loader: the process is stopped; continue it (SIGCONT), or use --loader=map",
			       ht_target_pid(f->target), ht_target_name(f->target));
	else
		r = safe(f) ? 0 : -EAGAIN;
	if (r == 0)
		r = ht_session_begin(&session, f->target, 0, err);
	if (r == 0) {
		r = f->act(f, &session);
		if (r < 0)
			session.err = NULL;	/* the first error is the one to tell */
		end = ht_session_end(&session);
		r = r < 0 ? r : end;
	}
	ht_target_resume(f->target);
	return r;
}

/* Where none could be borrowed at all, map would be refused, too. */
static void explain_none(const struct finder *f, int error, struct ht_err *err)
{
	if (f->why_not && !f->borrowable)
		ht_err_set(err, HT_ERR_FAILED, error,
			   "can't borrow a thread of %d (%s) for the loader: none was where it can be borrowed within 5 s: thread %d %s; try again later",
			   ht_target_pid(f->target), ht_target_name(f->target),
			   f->why_not_tid, f->why_not);
	else
		ht_err_set(err, HT_ERR_FAILED, error,
			   "can't borrow a thread of %d (%s) for the loader: none was in a safe place within 5 s; try again, or use --loader=map",
			   ht_target_pid(f->target), ht_target_name(f->target));
}

static int find_and_act(struct finder *f, struct ht_err *err)
{
	uint64_t deadline = ht_deadline_ns(PATIENCE_NS);
	uint64_t picky = ht_deadline_ns(PICKY_NS);
	int r = -EAGAIN;

	while (r == -EAGAIN && !ht_deadline_passed(deadline)) {
		size_t n = ht_target_list_threads(f->target, f->tids, MAX_THREADS);
		bool spare_main = n > 1 && !ht_deadline_passed(picky);

		for (size_t i = 0; i < n && r == -EAGAIN; i++)
			if (!spare_main || f->tids[i] != ht_target_pid(f->target))
				r = try_thread(f, f->tids[i], err);
		if (r == -EAGAIN)
			ht_target_nap(f->target, 5);
		if (!ht_target_alive(f->target))
			return ht_err_set(err, HT_ERR_GONE, -ESRCH, "the target is gone");
	}
	if (r == -EAGAIN)
		explain_none(f, r, err);
	return r;
}

static void finder_free(struct finder *f)
{
	if (!f)
		return;
	ht_live_free(f->live);
	ht_vec_fini(&f->unsafe);
	free(f);
}

static int check_base(const struct finder *f, const struct ht_hook_image *image,
		      struct ht_err *err)
{
	struct ht_hook_config config;

	if (ht_target_read(f->target, f->base + image->config, &config, sizeof(config)) < 0 ||
	    config.magic != HT_HOOK_MAGIC || config.version != HT_WIRE_VERSION)
		return ht_err_set(err, HT_ERR_FAILED, -ENOEXEC,
				  "can't tap %d (%s) by dlopen: the hook isn't where the loader says; use --loader=map",
				  ht_target_pid(f->target), ht_target_name(f->target));
	return 0;
}

static int finder_new(struct ht_target *target, struct ht_space *space,
		      const struct ht_plan *plan, act_fn act, struct finder **ret_finder,
		      struct ht_err *err)
{
	struct finder *f = calloc(1, sizeof(*f));
	int r = f ? 0 : -ENOMEM;

	if (r == 0) {
		f->target = target;
		f->space = space;
		f->act = act;
		r = study(f, plan);
	}
	if (r == 0)
		r = ht_live_new(space, ht_target_memfd(target), &f->live);
	if (r < 0) {
		finder_free(f);
		return ht_err_set(err, HT_ERR_FAILED, r, "can't look for a safe thread: %s",
				  strerror(-r));
	}
	*ret_finder = f;
	return 0;
}

/* The loader's handle of what it loaded at @base: the element of its list (struct link_map). */
static int find_handle(struct finder *f, ht_addr_t base)
{
	struct link link;
	uint64_t at;
	int r = ht_target_read(f->target, f->loader.r_debug + R_MAP_OFFSET, &at, sizeof(at));

	for (int i = 0; i < MAX_MODULES && r == 0 && at; i++) {
		r = ht_target_read(f->target, at, &link, sizeof(link));
		if (r == 0 && link.addr == base) {
			f->handle = at;
			return 0;
		}
		at = link.next;
	}
	return r < 0 ? r : -ENOENT;
}

static int unload(struct finder *f, ht_addr_t base, struct ht_err *err)
{
	int r = loader_obstacle(&f->loader) ? -ENOSYS : find_handle(f, base);

	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r,
				  "the target's loader doesn't know the hook: %s", strerror(-r));
	f->act = do_dlclose;
	return find_and_act(f, err);
}

int ht_dlopen_hook(struct ht_target *target, struct ht_space *space,
		   const struct ht_plan *plan, const struct ht_hook_image *image,
		   ht_addr_t *ret_base, struct ht_err *err)
{
	struct finder *f;
	const char *why;
	int r;

	r = finder_new(target, space, plan, do_dlopen, &f, err);
	if (r < 0)
		return r;
	why = load_obstacle(&f->loader);
	if (why)
		r = ht_err_set(err, HT_ERR_UNSUPPORTED, -ENOSYS,
			       "can't tap %d (%s) by dlopen: %s; use --loader=map",
			       ht_target_pid(target), ht_target_name(target), why);
	if (r == 0)
		r = find_and_act(f, err);
	if (r == 0)
		r = check_base(f, image, err);
	if (r == 0)
		*ret_base = f->base;
	else if (f->base)
		(void)!unload(f, f->base, NULL);
	finder_free(f);
	return r;
}

int ht_dlclose_hook(struct ht_target *target, struct ht_space *space,
		    const struct ht_plan *plan, ht_addr_t base, struct ht_err *err)
{
	struct finder *f;
	int r = finder_new(target, space, plan, do_dlclose, &f, err);

	if (r < 0)
		return r;
	r = unload(f, base, err);
	finder_free(f);
	return r;
}
