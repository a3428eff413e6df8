/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/space.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "ht_check.h"
#include "unwind/module-priv.h"

/*
 * The target is a fork of the test that runs one of the steps below each time that it is
 * sent a byte, and answers with the address that the step gives.
 */
typedef uintptr_t (*step_fn)(void);

struct child {
	pid_t pid;
	int sock;
	int procfd;
	int memfd;
};

static char dir[] = "/tmp/ht-space-XXXXXX";
static char lib[sizeof(dir) + 32];

static void serve(int sock, const step_fn *steps)
{
	uintptr_t answer;
	char c;

	while (read(sock, &c, 1) == 1) {
		answer = (*steps++)();
		if (write(sock, &answer, sizeof(answer)) != sizeof(answer))
			break;
	}
	_exit(0);
}

static void start(struct child *child, const step_fn *steps)
{
	int pair[2];
	char path[40];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	child->pid = fork();
	ck_assert_int_ge(child->pid, 0);
	if (!child->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		serve(pair[1], steps);
	}
	close(pair[1]);
	child->sock = pair[0];
	snprintf(path, sizeof(path), "/proc/%d", child->pid);
	child->procfd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/mem", child->pid);
	child->memfd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(child->procfd, 0);
	ck_assert_int_ge(child->memfd, 0);
}

static uintptr_t step(struct child *child)
{
	uintptr_t answer;

	ck_assert_int_eq(write(child->sock, "x", 1), 1);
	ck_assert_int_eq(read(child->sock, &answer, sizeof(answer)), sizeof(answer));
	return answer;
}

static void stop(struct child *child)
{
	close(child->sock);
	ck_assert_int_eq(waitpid(child->pid, NULL, 0), child->pid);
	close(child->procfd);
	close(child->memfd);
}

static void copy_file(const char *from, const char *to)
{
	struct ht_buf buf = HT_BUF_INIT;
	int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	ck_assert_int_ge(fd, 0);
	ck_ok(ht_buf_read_file(&buf, AT_FDCWD, from, SIZE_MAX / 4));
	ck_assert_int_eq(write(fd, buf.data, buf.len), (ssize_t)buf.len);
	close(fd);
	ht_buf_fini(&buf);
}

/* A library that nobody has loaded yet, with a name that hurts. */
static void make_library(void)
{
	struct stat st;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chmod(dir, 0755), 0);
	snprintf(lib, sizeof(lib), "%s/a lib\nof \\ours.so", dir);
	{
		void *handle = dlopen("libm.so.6", RTLD_NOW);
		struct link_map *map = handle;

		ck_assert_ptr_nonnull(handle);
		copy_file(map->l_name, lib);
		/* Longer than the original, or it would be the same module. */
		ck_ok(stat(lib, &st));
		ck_ok(truncate(lib, st.st_size + 4096));
	}
}

static void remove_library(void)
{
	unlink(lib);
	rmdir(dir);
}

static uintptr_t load_library(void)
{
	void *handle = dlopen(lib, RTLD_NOW | RTLD_LOCAL);

	return handle ? (uintptr_t)dlsym(handle, "cbrt") : 0;
}

static uintptr_t grow_heap(void)
{
	return (uintptr_t)mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static uintptr_t make_jit(void)
{
	return (uintptr_t)mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Text of the library moved to anonymous memory, as those do who want huge pages. */
static uintptr_t move_text(void)
{
	static uint8_t copy[4096];
	uintptr_t fn = load_library();
	void *page = (void *)(fn & ~(uintptr_t)4095);

	memcpy(copy, page, sizeof(copy));
	if (mmap(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != page)
		return 0;
	memcpy(page, copy, sizeof(copy));
	return fn;
}

static uintptr_t map_text_file(void)
{
	int fd = open(lib, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	if (fd < 0 || ftruncate(fd, 8192) < 0)
		return 0;
	return (uintptr_t)mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
}

/* The code that the module has at @addr is the code that the target has there. False: the
 * module has none there. */
static bool same_bytes(const struct child *child, const struct ht_space *space,
		       uintptr_t addr)
{
	const struct ht_mapping *mapping = ht_space_find(space, addr);
	const uint8_t *file;
	uint8_t memory[16];

	ck_assert_ptr_nonnull(mapping);
	ck_assert_ptr_nonnull(mapping->module);
	ck_assert_int_eq(pread(child->memfd, memory, sizeof(memory), (off_t)addr),
			 sizeof(memory));
	file = ht_binary_at(&mapping->module->binary, addr - mapping->bias,
			    sizeof(memory));
	ck_assert(!file || !memcmp(file, memory, sizeof(memory)));
	return file;
}

static void check_bytes(const struct child *child, const struct ht_space *space,
			uintptr_t addr)
{
	ck_assert(same_bytes(child, space, addr));
}

static void open_space(const struct child *child, struct ht_modules **ret_modules,
		       struct ht_space **ret_space)
{
	ck_ok(ht_modules_new(ret_modules));
	ck_ok(ht_space_new(child->procfd, child->memfd, *ret_modules, ret_space));
}

START_TEST(every_text_is_in_its_place)
{
	struct ht_modules *modules;
	struct ht_space *space;
	struct child child;
	size_t i, texts = 0;
	bool vdso = false;

	start(&child, NULL);
	open_space(&child, &modules, &space);
	for (i = 0; i < ht_space_count(space); i++) {
		const struct ht_mapping *m = ht_space_at(space, i);

		if (!(m->prot & HT_PROT_EXEC) || !m->module)
			continue;
		/* A segment may not fill its first and last page. */
		texts += same_bytes(&child, space, m->start + 4096 - 64);
		vdso |= !strcmp(ht_module_name(m->module), "[vdso]");
	}
	ck_assert_uint_ge(texts, 4);
	ck_assert(vdso);
	ck_assert_ptr_null(ht_space_at(space, i));
	ck_assert_ptr_null(ht_space_find(space, 0));
	check_bytes(&child, space, (uintptr_t)ht_space_new);
	check_bytes(&child, space, (uintptr_t)prctl);
	ht_space_free(space);
	ht_modules_free(modules);
	stop(&child);
}
END_TEST

START_TEST(sees_what_is_loaded_later)
{
	struct ht_modules *modules;
	struct ht_space *space;
	const struct ht_mapping *mapping;
	struct child child;
	uintptr_t fn;

	make_library();
	start(&child, (const step_fn[]){ grow_heap, load_library, make_jit });
	open_space(&child, &modules, &space);
	ck_assert_uint_eq(ht_space_generation(space), 1);
	ck_assert_int_eq(ht_space_refresh(space), 0);
	fn = step(&child);
	ck_assert_int_eq(ht_space_refresh(space), 0);
	ck_assert_ptr_nonnull(ht_maps_find(ht_space_maps(space), fn));
	fn = step(&child);
	ck_assert_uint_ne(fn, 0);
	ck_assert_ptr_null(ht_space_find(space, fn));
	ck_assert_int_eq(ht_space_refresh(space), 1);
	ck_assert_uint_eq(ht_space_generation(space), 2);
	mapping = ht_space_find(space, fn);
	ck_assert_ptr_nonnull(mapping);
	ck_assert_str_eq(ht_module_path(mapping->module), lib);
	ck_assert(!ht_module_deleted(mapping->module));
	check_bytes(&child, space, fn);
	fn = step(&child);
	ck_assert_int_eq(ht_space_refresh(space), 1);
	mapping = ht_space_find(space, fn);
	ck_assert_ptr_nonnull(mapping);
	ck_assert_ptr_null(mapping->module);
	ht_space_free(space);
	ht_modules_free(modules);
	stop(&child);
	remove_library();
}
END_TEST

START_TEST(moved_text_keeps_its_module)
{
	struct ht_modules *modules;
	struct ht_space *space;
	struct child child;
	uintptr_t fn;

	make_library();
	start(&child, (const step_fn[]){ move_text });
	fn = step(&child);
	open_space(&child, &modules, &space);
	check_bytes(&child, space, fn);
	ht_space_free(space);
	ht_modules_free(modules);
	stop(&child);
	remove_library();
}
END_TEST

START_TEST(text_without_elf_has_no_module)
{
	struct ht_modules *modules;
	struct ht_space *space;
	struct child child;
	uintptr_t at;

	make_library();
	start(&child, (const step_fn[]){ map_text_file });
	at = step(&child);
	open_space(&child, &modules, &space);
	ck_assert_ptr_nonnull(ht_space_find(space, at));
	ck_assert_ptr_null(ht_space_find(space, at)->module);
	ht_space_free(space);
	ht_modules_free(modules);
	stop(&child);
	remove_library();
}
END_TEST

START_TEST(two_targets_share_modules)
{
	struct ht_modules *modules;
	struct ht_space *a, *b;
	struct child first, second;
	uintptr_t fn = (uintptr_t)prctl;
	size_t count;

	start(&first, NULL);
	start(&second, NULL);
	open_space(&first, &modules, &a);
	count = ht_modules_count(modules);
	ck_ok(ht_space_new(second.procfd, second.memfd, modules, &b));
	ck_assert_uint_eq(ht_modules_count(modules), count);
	ck_assert_ptr_eq(ht_space_find(a, fn)->module, ht_space_find(b, fn)->module);
	ht_space_free(a);
	ht_space_free(b);
	ht_modules_free(modules);
	/* The second has a copy of the first's socket. */
	stop(&second);
	stop(&first);
}
END_TEST

START_TEST(gone_target_keeps_the_snapshot)
{
	struct ht_modules *modules;
	struct ht_space *space;
	struct child child;

	start(&child, NULL);
	open_space(&child, &modules, &space);
	ck_assert_int_eq(kill(child.pid, SIGKILL), 0);
	ck_assert_int_eq(
		waitid(P_PID, (id_t)child.pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	ck_assert_int_eq(ht_space_refresh(space), -ESRCH);
	ck_assert_ptr_nonnull(ht_space_find(space, (uintptr_t)prctl));
	ck_assert_uint_eq(ht_space_generation(space), 1);
	ht_space_free(space);
	ht_modules_free(modules);
	stop(&child);
}
END_TEST

/* What remains of a library after an upgrade, for somebody without privileges: no
 * map_files, and another file under its path. */
static void check_replaced(void)
{
	struct ht_modules *modules;
	struct ht_space *space;
	const struct ht_mapping *mapping;
	struct child child;
	uintptr_t fn;
	size_t len;

	start(&child, (const step_fn[]){ load_library });
	fn = step(&child);
	unlink(lib);
	copy_file("/proc/self/exe", lib);
	open_space(&child, &modules, &space);
	mapping = ht_space_find(space, fn);
	ck_assert_ptr_nonnull(mapping);
	ck_assert_ptr_nonnull(mapping->module);
	ck_assert(ht_module_deleted(mapping->module));
	ck_assert_str_eq(ht_module_path(mapping->module), lib);
	check_bytes(&child, space, fn);
	ck_assert_ptr_nonnull(ht_module_table(mapping->module));
	ht_module_build_id(mapping->module, &len);
	ck_assert_uint_ge(len, 8);
	/* It isn't copied again. */
	len = ht_modules_count(modules);
	ck_assert_int_eq(ht_space_refresh(space), 0);
	ck_assert_uint_eq(ht_modules_count(modules), len);
	check_bytes(&child, space, (uintptr_t)prctl);
	check_bytes(&child, space, (uintptr_t)ht_space_new);
	ht_space_free(space);
	ht_modules_free(modules);
	stop(&child);
}

START_TEST(replaced_library)
{
	make_library();
	check_replaced();
	remove_library();
}
END_TEST

START_TEST(replaced_library_without_privileges)
{
	make_library();
	ck_assert_int_eq(chmod(dir, 0777), 0);
	if (!getuid()) {
		ck_assert_int_eq(chown(dir, 65534, 65534), 0);
		ck_assert_int_eq(setresgid(65534, 65534, 65534), 0);
		ck_assert_int_eq(setresuid(65534, 65534, 65534), 0);
		/* Else its own /proc files would belong to root. */
		ck_assert_int_eq(prctl(PR_SET_DUMPABLE, 1), 0);
	}
	check_replaced();
	remove_library();
}
END_TEST

/* A file of nothing but a segment at that place. */
static struct ht_module *add_made(struct ht_space *space, uint64_t start, uint64_t len)
{
	struct { Elf64_Ehdr header; Elf64_Phdr segment; } *file = calloc(1, sizeof(*file));
	struct ht_module *module = NULL;

	memcpy(file->header.e_ident, ELFMAG, SELFMAG);
	file->header.e_ident[EI_CLASS] = ELFCLASS64;
	file->header.e_ident[EI_DATA] = ELFDATA2LSB;
	file->header.e_type = ET_DYN;
	file->header.e_machine = EM_X86_64;
	file->header.e_phoff = sizeof(file->header);
	file->header.e_phentsize = sizeof(file->segment);
	file->header.e_phnum = 1;
	file->segment = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R | PF_X,
				      .p_vaddr = start, .p_memsz = len };
	ck_ok(ht_space_add_made(space, (uint8_t *)file, sizeof(*file), &module));
	return module;
}

static void check_made(const struct ht_space *space, uint64_t addr,
		       const struct ht_module *module)
{
	const struct ht_mapping *found = ht_space_find_made(space, addr);

	ck_assert_ptr_eq(found ? found->module : NULL, module);
	ck_assert(!found || (found->made && !found->bias && addr >= found->start &&
			     addr < found->end));
}

START_TEST(code_made_at_run_time)
{
	int proc = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct ht_module *a, *b, *c, *d, *e;
	struct ht_modules *modules;
	struct ht_space *space;
	uint64_t generation;
	size_t n;

	ck_ok(ht_modules_new(&modules));
	ck_ok(ht_space_new(proc, -1, modules, &space));
	n = ht_space_count(space);
	check_made(space, 0x1000, NULL);
	generation = ht_space_generation(space);
	b = add_made(space, 0x2000, 0x100);
	a = add_made(space, 0x1000, 0x1000);
	c = add_made(space, 0x3000, 0x100);
	ck_assert_uint_eq(ht_space_generation(space), generation + 3);
	check_made(space, 0xfff, NULL);
	check_made(space, 0x1000, a);
	check_made(space, 0x1fff, a);
	check_made(space, 0x2000, b);
	check_made(space, 0x20ff, b);
	check_made(space, 0x2100, NULL);
	check_made(space, 0x3000, c);
	/* Over the end of one, all of the next, and the start of the third. */
	d = add_made(space, 0x1800, 0x1810);
	check_made(space, 0x1000, NULL);
	check_made(space, 0x1800, d);
	check_made(space, 0x300f, d);
	check_made(space, 0x3010, NULL);
	/* The same place again; and one in front, one behind. */
	e = add_made(space, 0x1800, 0x1810);
	check_made(space, 0x1800, e);
	a = add_made(space, 0x1000, 0x800);
	c = add_made(space, 0x3010, 0x10);
	check_made(space, 0x17ff, a);
	check_made(space, 0x1800, e);
	check_made(space, 0x3010, c);
	generation = ht_space_generation(space);
	ht_space_drop_made(space, e);
	ht_space_drop_made(space, b);
	ck_assert_uint_eq(ht_space_generation(space), generation + 1);
	check_made(space, 0x1800, NULL);
	check_made(space, 0x17ff, a);
	check_made(space, 0x3010, c);
	/* They are no mappings, and stay when those are read anew. */
	ck_assert_uint_eq(ht_space_count(space), n);
	ck_assert_ptr_null(ht_space_find(space, 0x1000));
	ck_ok(ht_space_refresh(space));
	check_made(space, 0x1000, a);
	ck_assert_int_eq(ht_space_add_made(space, calloc(1, 8), 8, &d), -ENOEXEC);
	ht_space_free(space);
	ht_modules_free(modules);
	close(proc);
}
END_TEST

int main(void)
{
	return ht_check_run(
		"space",
		(const TTest *const[]){
			every_text_is_in_its_place, sees_what_is_loaded_later,
			moved_text_keeps_its_module, text_without_elf_has_no_module,
			two_targets_share_modules, gone_target_keeps_the_snapshot,
			replaced_library, replaced_library_without_privileges,
			code_made_at_run_time, NULL });
}
