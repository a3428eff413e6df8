/* SPDX-License-Identifier: Apache-2.0
 *
 * test_plan.c: plans of this process, of programs under each allocator, and of programs
 * made to be difficult (tests/targets/plan_victim.c).
 */
#include "inject/plan.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "ht_check.h"
#include "ht_target.h"

struct planned {
	struct ht_test_target target;
	struct ht_modules *modules;
	struct ht_space *space;
	struct ht_plan *plan;	/* NULL: refused, see err */
	struct ht_err err;
	int procfd, memfd;
};

static void plan_of(struct planned *p, pid_t pid)
{
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	p->procfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(p->procfd, 0);
	p->memfd = openat(p->procfd, "mem", O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(p->memfd, 0);
	ck_ok(ht_modules_new(&p->modules));
	ck_ok(ht_space_new(p->procfd, p->memfd, p->modules, &p->space));
	p->plan = NULL;
	p->err.kind = HT_ERR_NONE;
	r = ht_plan_new(p->space, p->memfd, &p->plan, &p->err);
	ck_assert_msg(r < 0 ? p->err.kind != HT_ERR_NONE && !p->plan : p->plan != NULL,
		      "%d and a plan or none", r);
}

static void forget(struct planned *p)
{
	ht_plan_free(p->plan);
	ht_space_free(p->space);
	ht_modules_free(p->modules);
	ht_fd_close(p->memfd);
	ht_fd_close(p->procfd);
}

static const char *target_path(char path[512], const char *name)
{
	const char *dir = getenv("HT_BUILDDIR");

	snprintf(path, 512, "%s/tests/targets/%s", dir ? dir : ".", name);
	return path;
}

/* Plan a program of tests/targets, run under @env ("LD_PRELOAD=..."). */
static void start(struct planned *p, const char *name, const char *env)
{
	char path[512];

	target_path(path, name);
	ck_ok(ht_test_target_start(&p->target, "/usr/bin/env",
				   (const char *const[]){ env, path, NULL }));
	plan_of(p, p->target.pid);
}

static void stop(struct planned *p)
{
	int status;

	forget(p);
	ck_ok(ht_test_target_stop(&p->target, &status));
	ck_assert(WIFEXITED(status) && !WEXITSTATUS(status));
}

/* @name is one of @names, which are separated by ", ". */
static bool has_name(const char *names, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = strstr(names, name); at; at = strstr(at + 1, name)) {
		if ((at == names || at[-1] == ' ') && (!at[len] || at[len] == ','))
			return true;
	}
	return false;
}

static const struct ht_site *site(const struct planned *p, const char *module,
				  const char *name)
{
	for (size_t i = 0; i < p->plan->n_sites; i++) {
		const struct ht_site *s = &p->plan->sites[i];

		if (!strncmp(ht_module_name(s->module), module, strlen(module)) &&
		    has_name(s->names, name))
			return s;
	}
	return NULL;
}

static const struct ht_allocator *allocator(const struct planned *p, const char *name)
{
	ck_assert_msg(p->plan != NULL, "%s", p->err.text);
	for (size_t i = 0; i < p->plan->n_allocators; i++) {
		if (!strncmp(p->plan->allocators[i].name, name, strlen(name)))
			return &p->plan->allocators[i];
	}
	return NULL;
}

enum expect {
	FRAMELESS,	/* patched, without a frame */
	FRAMED,		/* patched */
	REFUSED,
	GONE,		/* no site: counted through another one */
};

static void check_site(const struct planned *p, const char *module, const char *name,
		       enum expect expect, const char *why)
{
	const struct ht_site *s = site(p, module, name);

	if (expect == GONE) {
		ck_assert_msg(!s, "%s of %s is a site", name, module);
		return;
	}
	ck_assert_msg(s != NULL, "%s of %s is no site", name, module);
	ck_assert_msg(s->addr && s->size, "%s: address, size", name);
	if (expect == REFUSED) {
		ck_assert_msg(s->refused && strstr(s->refused, why), "%s: %s", name,
			      s->refused ? s->refused : "not refused");
		return;
	}
	ck_assert_msg(!s->refused, "%s of %s: %s", name, module, s->refused);
	ck_assert_msg(s->frameless == (expect == FRAMELESS), "%s of %s: frameless %d", name,
		      module, s->frameless);
	ck_assert_msg(!why || has_name(s->names, why), "%s isn't %s", s->names, why);
}

struct expected {
	const char *name;
	enum expect expect;
	const char *why;	/* part of the refusal, or another name of the same site */
};

static void check_sites(const struct planned *p, const char *module,
			const struct expected *expected, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check_site(p, module, expected[i].name, expected[i].expect, expected[i].why);
}

/* What must hold for every plan. */
static void check_sanity(const struct planned *p)
{
	unsigned n = 0;

	for (size_t i = 0; i < p->plan->n_allocators; i++)
		n += p->plan->allocators[i].n_sites + p->plan->allocators[i].n_refused;
	ck_assert_uint_eq(n, p->plan->n_sites);
	for (size_t i = 0; i < p->plan->n_sites; i++) {
		const struct ht_site *a = &p->plan->sites[i];
		uint8_t memory[sizeof(a->original)];

		ck_ok(ht_fd_pread_all(p->memfd, memory, sizeof(memory), a->addr));
		if (!a->refused)
			ck_assert_mem_eq(memory, a->original, sizeof(memory));
		ck_assert(a->refused || a->kind->call != HT_CALL_NEW || a->nothrow_addr);
		ck_assert(!a->refused || !a->frameless);
		for (size_t j = 0; j < i; j++)
			ck_assert_uint_ne(a->addr, p->plan->sites[j].addr);
	}
}

static const struct expected glibc[] = {
	{ "malloc", FRAMELESS, "__libc_malloc" },
	{ "free", FRAMELESS, "cfree" },
	{ "calloc", FRAMELESS },
	{ "realloc", FRAMED },
	{ "memalign", FRAMED, "aligned_alloc" },
	{ "posix_memalign", FRAMED },
	{ "valloc", FRAMED },
	{ "pvalloc", FRAMED },
	{ "reallocarray", FRAMED },
	{ "_Znwm", GONE },
};

START_TEST(plans_itself)
{
	struct planned p;
	void *libc = dlopen("libc.so.6", RTLD_NOLOAD | RTLD_LAZY);

	ck_assert_ptr_nonnull(libc);
	plan_of(&p, getpid());
#ifdef __SANITIZE_ADDRESS__
	ck_assert_ptr_null(p.plan);
	ck_assert_msg(strstr(p.err.text, "AddressSanitizer") != NULL, "%s", p.err.text);
	forget(&p);
	return;
#endif
	ck_assert_ptr_nonnull(allocator(&p, "glibc 2."));
	check_sites(&p, "libc.so.6", glibc, ARRAY_SIZE(glibc));
	ck_assert_uint_eq(site(&p, "libc.so.6", "malloc")->addr,
			  (uintptr_t)dlsym(libc, "malloc"));
	check_sanity(&p);
	forget(&p);
	dlclose(libc);
}
END_TEST

START_TEST(plans_glibc)
{
	struct planned p;

	start(&p, "plan_victim", "LD_BIND_NOW=");
	ck_assert_uint_eq(p.plan->n_allocators, 1);
	ck_assert_uint_eq(allocator(&p, "glibc 2.")->n_sites, 9);
	ck_assert_uint_eq(allocator(&p, "glibc 2.")->n_refused, 0);
	check_sites(&p, "libc.so.6", glibc, ARRAY_SIZE(glibc));
	check_sanity(&p);
	stop(&p);
}
END_TEST

static const struct expected jemalloc[] = {
	{ "malloc", FRAMELESS },
	{ "free", FRAMELESS },
	{ "calloc", FRAMELESS },
	{ "realloc", FRAMED },
	{ "rallocx", FRAMED },
	{ "xallocx", FRAMED },
	{ "mallocx", FRAMELESS },
	{ "dallocx", FRAMELESS },
	{ "sdallocx", FRAMELESS },
	{ "posix_memalign", FRAMED },
	/* Out of memory it comes back through malloc. */
	{ "_Znwm", FRAMED },
	{ "_ZnwmSt11align_val_t", FRAMED },
	/* jmp _Znwm; jmp free@plt */
	{ "_Znam", GONE },
	{ "_ZdlPv", GONE },
	{ "_ZdaPvSt11align_val_t", GONE },
	{ "_ZdlPvm", FRAMELESS },
	/* call sdallocx@plt */
	{ "_ZdlPvmSt11align_val_t", FRAMED },
};

static const struct expected tcmalloc[] = {
	{ "malloc", FRAMELESS, "tc_malloc" },
	{ "free", FRAMELESS, "_ZdaPv" },
	{ "calloc", FRAMELESS, "tc_calloc" },
	{ "realloc", FRAMED, "tc_realloc" },
	{ "memalign", FRAMELESS, "aligned_alloc" },
	{ "posix_memalign", FRAMED, "tc_posix_memalign" },
	{ "_Znwm", FRAMELESS, "tc_newarray" },
	{ "_ZdlPvm", FRAMELESS, "tc_delete_sized" },
	{ "tc_malloc_skip_new_handler", FRAMELESS },
};

static const struct expected mimalloc[] = {
	{ "malloc", FRAMELESS, "mi_malloc" },
	{ "free", FRAMELESS, "_ZdlPv" },
	{ "cfree", GONE },
	{ "mi_free_size", GONE },
	{ "mi_free_size_aligned", GONE },
	{ "_ZdlPvmSt11align_val_t", GONE },
	{ "calloc", FRAMELESS, "mi_calloc" },
	{ "realloc", FRAMED, "mi_realloc" },
	{ "mi_heap_realloc", FRAMED },
	{ "aligned_alloc", GONE },
	{ "mi_aligned_alloc", FRAMED },
	/* They call mi_reallocn, mi_memalign and so on, which count. */
	{ "mi_reallocarray", REFUSED, "a call is among" },
	{ "mi_valloc", REFUSED, "a call is among" },
	{ "valloc", FRAMED },
	{ "_Znwm", FRAMELESS, "mi_new" },
	{ "_ZnwmRKSt9nothrow_t", GONE },
	{ "mi_heap_malloc", FRAMELESS },
	{ "mi_new_n", FRAMELESS },
	{ "mi_heap_alloc_new", FRAMELESS },
};

/* Lazily bound or not, the plan is the same. */
static void check_preload(const char *lib, const char *name, const struct expected *expected,
			  size_t n)
{
	char env[128];
	struct planned p;

	for (int now = 0; now < 2; now++) {
		setenv("LD_BIND_NOW", now ? "1" : "", 1);
		snprintf(env, sizeof(env), "LD_PRELOAD=%s", lib);
		start(&p, "plan_victim", env);
		ck_assert_msg(allocator(&p, name) != NULL, "no %s, but %s", name,
			      p.plan->allocators[0].name);
		check_sites(&p, lib, expected, n);
		check_sites(&p, "libc.so.6", glibc, ARRAY_SIZE(glibc));
		check_sanity(&p);
		stop(&p);
	}
}

START_TEST(plans_jemalloc)
{
	check_preload("libjemalloc.so.2", "jemalloc 5.3.0", jemalloc, ARRAY_SIZE(jemalloc));
}
END_TEST

START_TEST(plans_tcmalloc)
{
	check_preload("libtcmalloc_minimal.so.4", "tcmalloc 2.", tcmalloc, ARRAY_SIZE(tcmalloc));
}
END_TEST

START_TEST(plans_mimalloc)
{
	check_preload("libmimalloc.so.2", "mimalloc 2.", mimalloc, ARRAY_SIZE(mimalloc));
}
END_TEST

/* The nothrow sibling is what is patched behind bare jumps. */
START_TEST(siblings_are_resolved)
{
	struct planned p;

	start(&p, "plan_victim", "LD_PRELOAD=libmimalloc.so.2");
	ck_assert_uint_eq(site(&p, "libmimalloc", "_Znwm")->nothrow_addr,
			  site(&p, "libmimalloc", "mi_new_nothrow")->addr);
	ck_assert_uint_eq(site(&p, "libmimalloc", "mi_heap_alloc_new")->nothrow_addr,
			  site(&p, "libmimalloc", "mi_heap_malloc")->addr);
	stop(&p);
}
END_TEST

static const struct expected victim[] = {
	{ "malloc", FRAMELESS, "mi_malloc" },
	{ "free", FRAMELESS },
	{ "mi_free", GONE },
	{ "mi_zalloc", REFUSED, "shorter than a jump" },
	{ "mi_mallocn", REFUSED, "shorter than a jump" },
	{ "mi_reallocn", REFUSED, "shorter than a jump" },
	{ "mi_reallocf", REFUSED, "shorter than a jump" },
	{ "mi_rezalloc", FRAMED },
	{ "mi_recalloc", REFUSED, "too near 'mi_rezalloc'" },
	{ "mi_malloc_aligned", FRAMELESS },
	{ "mi_zalloc_aligned", REFUSED, "too near 'mi_malloc_aligned'" },
	{ "mi_calloc_aligned", FRAMELESS },
	{ "mi_realloc_aligned", FRAMED },
	{ "mi_rezalloc_aligned", FRAMED },
	{ "mi_memalign", FRAMELESS },
	{ "mi_aligned_alloc", FRAMELESS },
	{ "mi_valloc", FRAMELESS },
	{ "mi_pvalloc", FRAMELESS },
	{ "mi_new_nothrow", FRAMELESS },
	{ "mi_malloc_small", REFUSED, "branches into its first bytes" },
	{ "mi_zalloc_small", FRAMELESS },
	{ "mi_heap_zalloc", FRAMELESS },
	{ "mi_heap_malloc", REFUSED, "branches back" },
	{ "mi_expand", REFUSED, "a call is among" },
	{ "mi_realloc", REFUSED, "page boundary" },
	{ "mi_calloc", FRAMELESS },
	/* jmp mi_expand, which isn't patched and has no unwind data. */
	{ "mi_heap_calloc", FRAMED },
	/* jmp to a function that jumps into mi_malloc_small. */
	{ "mi_heap_mallocn", FRAMED },
	{ "_Znwm", REFUSED, "no '_ZnwmRKSt9nothrow_t'" },
	{ "_Znam", GONE },
	{ "_ZnwmSt11align_val_t", FRAMELESS },
	{ "_ZnwmSt11align_val_tRKSt9nothrow_t", GONE },
};

START_TEST(small_functions_are_told_apart)
{
	struct planned p;

	start(&p, "plan_victim_asm", "LD_BIND_NOW=");
	check_sites(&p, "plan_victim_asm", victim, ARRAY_SIZE(victim));
	ck_assert_int_eq(site(&p, "plan_victim_asm", "mi_malloc_small")->refusal,
			 HT_INSN_BRANCH_BACK);
	ck_assert_uint_eq(site(&p, "plan_victim_asm", "_ZnwmSt11align_val_t")->nothrow_addr,
			  site(&p, "plan_victim_asm", "mi_new_nothrow")->addr);
	check_sites(&p, "libc.so.6", glibc, ARRAY_SIZE(glibc));
	check_sanity(&p);
	stop(&p);
}
END_TEST

START_TEST(ifunc_is_read_from_slots)
{
	const char *const lib = "plan_ifunc.so";
	char path[512], env[600];
	unsigned long told;
	struct planned p;

	snprintf(env, sizeof(env), "LD_PRELOAD=%s", target_path(path, lib));
	start(&p, "plan_victim", env);
	ck_assert_int_eq(sscanf(p.target.ready, "READY %lx", &told), 1);
	check_site(&p, lib, "malloc", FRAMELESS, NULL);
	ck_assert_uint_eq(site(&p, lib, "malloc")->addr, told);
	check_site(&p, lib, "free", FRAMELESS, NULL);
	check_site(&p, lib, "je_calloc", REFUSED, "IFUNC");
	check_sanity(&p);
	stop(&p);
}
END_TEST

/* It has nothing that isn't counted, and nothing to tell. */
START_TEST(an_allocator_that_only_forwards_is_none)
{
	char lib[512], env[600];
	struct planned p;

	snprintf(env, sizeof(env), "LD_PRELOAD=%s", target_path(lib, "loaded_forward.so"));
	start(&p, "plan_victim", env);
	ck_assert(allocator(&p, "glibc") != NULL);
	ck_assert_uint_eq(p.plan->n_allocators, 1);
	stop(&p);
}
END_TEST

START_TEST(half_an_allocator_is_left_out)
{
	const struct ht_allocator *a;
	struct planned p;

	start(&p, "plan_victim_broken", "LD_BIND_NOW=");
	a = allocator(&p, "malloc in plan_victim_broken");
	ck_assert_ptr_nonnull(a);
	ck_assert_uint_eq(a->n_sites, 0);
	ck_assert_uint_eq(a->n_refused, 4);
	ck_assert_uint_eq(a->n_unseen, 4);
	ck_assert_msg(strstr(a->left_out, "'malloc' can't be patched: a call") != NULL, "%s",
		      a->left_out);
	check_site(&p, "plan_victim_broken", "malloc", REFUSED, "a call is among");
	check_site(&p, "plan_victim_broken", "free", REFUSED, "'malloc' of the same module");
	check_sites(&p, "libc.so.6", glibc, ARRAY_SIZE(glibc));
	check_sanity(&p);
	stop(&p);
}
END_TEST

START_TEST(a_wrapper_of_libc_has_frames)
{
	struct planned p;

	start(&p, "plan_victim_wrapper", "LD_BIND_NOW=");
	check_site(&p, "plan_victim_wrapper", "malloc", FRAMED, NULL);
	check_site(&p, "plan_victim_wrapper", "free", FRAMED, NULL);
	check_sites(&p, "libc.so.6", glibc, ARRAY_SIZE(glibc));
	stop(&p);
}
END_TEST

/* Where a slot leads that isn't bound yet is known by its name. */
START_TEST(own_malloc_needs_no_frame)
{
	struct planned p;

	start(&p, "plan_victim_own", "LD_BIND_NOW=");
	check_site(&p, "plan_victim_own", "malloc", FRAMELESS, NULL);
	check_site(&p, "plan_victim_own", "free", FRAMELESS, NULL);
	check_sites(&p, "libc.so.6", glibc, ARRAY_SIZE(glibc));
	stop(&p);
}
END_TEST

START_TEST(static_malloc_without_a_free)
{
	struct planned p;

	start(&p, "plan_bare_alone", "LD_BIND_NOW=");
	check_site(&p, "plan_bare_alone", "malloc", FRAMELESS, NULL);
	stop(&p);
}
END_TEST

/* They are refused, or aren't entries, but all that they do is done by one that is tapped. */
START_TEST(counted_by_what_they_call)
{
	const struct ht_allocator *a;
	struct planned p;

	start(&p, "plan_victim", "LD_PRELOAD=libmimalloc.so.2");
	a = allocator(&p, "mimalloc 2.");
	ck_assert_ptr_nonnull(a);
	ck_assert_uint_gt(a->n_refused, 0);
	ck_assert_uint_eq(a->n_unseen, 0);
	check_site(&p, "libmimalloc", "mi_reallocarray", REFUSED, "a call is among");
	ck_assert(site(&p, "libmimalloc", "mi_reallocarray")->counted);
	check_site(&p, "libmimalloc", "mi_strdup", FRAMED, NULL);
	check_site(&p, "libmimalloc", "mi_heap_strdup", FRAMED, NULL);
	check_site(&p, "libmimalloc", "mi_realpath", GONE, NULL);
	check_site(&p, "libmimalloc", "mi_new_realloc", GONE, NULL);
	check_site(&p, "libmimalloc", "mi_dupenv_s", GONE, NULL);
	stop(&p);
}
END_TEST

START_TEST(nothing_to_patch_is_an_error)
{
	struct planned p;

	start(&p, "plan_bare_malloc", "LD_BIND_NOW=");
	ck_assert_int_eq(p.err.kind, HT_ERR_UNSUPPORTED);
	ck_assert_msg(strstr(p.err.text, "'free' of 'plan_bare_malloc'") != NULL, "%s",
		      p.err.text);
	ck_assert_msg(strstr(p.err.text, "shorter than a jump") != NULL, "%s", p.err.text);
	stop(&p);
}
END_TEST

START_TEST(foreign_breakpoints_are_respected)
{
	static const uint8_t int3 = 0xcc;
	struct planned p;
	ht_addr_t addr;
	uint8_t old;

	start(&p, "plan_victim_asm", "LD_BIND_NOW=");
	addr = site(&p, "plan_victim_asm", "mi_memalign")->addr + 2;
	old = site(&p, "plan_victim_asm", "mi_memalign")->original[2];
	ck_assert_int_eq(pwrite(p.memfd, &int3, 1, addr), 1);
	forget(&p);
	plan_of(&p, p.target.pid);
	check_site(&p, "plan_victim_asm", "mi_memalign", REFUSED, "another hook or a breakpoint");
	check_site(&p, "plan_victim_asm", "mi_memalign", REFUSED, "are 90 90 cc 90");
	check_site(&p, "plan_victim_asm", "mi_new_nothrow", FRAMELESS, NULL);
	ck_assert_int_eq(pwrite(p.memfd, &old, 1, addr), 1);
	/* In malloc it costs the whole module. */
	addr = site(&p, "plan_victim_asm", "malloc")->addr;
	old = site(&p, "plan_victim_asm", "malloc")->original[0];
	ck_assert_int_eq(pwrite(p.memfd, &int3, 1, addr), 1);
	forget(&p);
	plan_of(&p, p.target.pid);
	check_site(&p, "plan_victim_asm", "malloc", REFUSED, "another hook or a breakpoint");
	check_site(&p, "plan_victim_asm", "mi_memalign", REFUSED, "'malloc' of the same module");
	check_sites(&p, "libc.so.6", glibc, ARRAY_SIZE(glibc));
	ck_assert_int_eq(pwrite(p.memfd, &old, 1, addr), 1);
	stop(&p);
}
END_TEST

START_TEST(a_dead_target_is_gone)
{
	struct planned p;
	struct ht_plan *plan = NULL;
	struct ht_err err;

	start(&p, "plan_victim", "LD_BIND_NOW=");
	ht_test_target_kill(&p.target);
	ck_assert_int_lt(ht_plan_new(p.space, p.memfd, &plan, &err), 0);
	ck_assert_int_eq(err.kind, HT_ERR_GONE);
	forget(&p);
}
END_TEST

static const struct expected musl[] = {
	{ "malloc", FRAMELESS },
	{ "free", FRAMELESS },
	/* calls malloc@plt */
	{ "calloc", FRAMED },
	{ "realloc", FRAMED },
	{ "aligned_alloc", FRAMED },
	/* jmp aligned_alloc@plt */
	{ "memalign", GONE },
	{ "posix_memalign", FRAMED },
	{ "reallocarray", FRAMED },
};

static bool compile_musl(const char *path, const char *flags)
{
	char cmd[2048];

	snprintf(cmd, sizeof(cmd), "musl-gcc -O2 -fno-builtin %s -o %s %s/tests/targets/plan_victim.c", flags,
		 path, getenv("HT_SRCDIR") ? getenv("HT_SRCDIR") : "..");
	return !system(cmd);
}

START_TEST(plans_musl)
{
	char path[512];
	struct planned p;

	if (!ht_check_have(!system("command -v musl-gcc >/dev/null"), "musl-gcc"))
		return;
	ck_assert(compile_musl(target_path(path, "plan_musl"), ""));
	start(&p, "plan_musl", "LD_BIND_NOW=");
	ck_assert_ptr_nonnull(allocator(&p, "musl 1."));
	ck_assert_uint_eq(p.plan->n_allocators, 1);
	check_sites(&p, ht_module_name(p.plan->allocators[0].module), musl, ARRAY_SIZE(musl));
	check_sanity(&p);
	stop(&p);
	unlink(path);
	ck_assert(compile_musl(target_path(path, "plan_musl_static"), "-static"));
	start(&p, "plan_musl_static", "LD_BIND_NOW=");
	ck_assert_ptr_nonnull(allocator(&p, "malloc in plan_musl_static"));
	check_site(&p, "plan_musl_static", "malloc", FRAMELESS, NULL);
	check_sanity(&p);
	stop(&p);
	unlink(path);
}
END_TEST

int main(void)
{
	return ht_check_run("plan", (const TTest *const[]){
					    plans_itself,
					    plans_glibc,
					    plans_jemalloc,
					    plans_tcmalloc,
					    plans_mimalloc,
					    siblings_are_resolved,
					    small_functions_are_told_apart,
					    ifunc_is_read_from_slots,
					    an_allocator_that_only_forwards_is_none,
					    half_an_allocator_is_left_out,
					    a_wrapper_of_libc_has_frames, own_malloc_needs_no_frame,
					    static_malloc_without_a_free,
					    counted_by_what_they_call,
					    nothing_to_patch_is_an_error,
					    foreign_breakpoints_are_respected,
					    a_dead_target_is_gone,
					    plans_musl,
					    NULL });
}
