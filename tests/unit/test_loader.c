/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/loader.h"

#include <elf.h>
#include <link.h>
#include <string.h>

#include "fake_proc.h"
#include "ht_check.h"

#define BASE UINT64_C(0x10000)
#define DYNAMIC 0x400
#define SYMTAB 0x800
#define STRTAB 0xa00
#define HASH 0xc00

static struct fake_proc fake;
static struct ht_ldso ldso;

/* A loader with two symbols behind the null one, both in the one bucket of its hash
 * table. */
static struct image {
	Elf64_Ehdr header;
	Elf64_Phdr phdrs[2];
	Elf64_Dyn dyn[4];
	Elf64_Sym syms[3];
	char strings[64];
	struct {
		uint32_t n_buckets, first, bloom_len, shift;
		uint64_t bloom;
		uint32_t bucket, chain[2];
	} hash;
} image;

static uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

static void reset(void)
{
	static const char strings[] = "\0_dl_debug_state\0_r_debug";

	memset(&image, 0, sizeof(image));
	memcpy(image.header.e_ident, ELFMAG, SELFMAG);
	image.header.e_phoff = 0x100;
	image.header.e_phentsize = sizeof(Elf64_Phdr);
	image.header.e_phnum = 2;
	image.phdrs[0].p_type = PT_LOAD;
	image.phdrs[1] = (Elf64_Phdr){ .p_type = PT_DYNAMIC, .p_vaddr = DYNAMIC,
				       .p_memsz = sizeof(image.dyn) };
	image.dyn[0] = (Elf64_Dyn){ DT_SYMTAB, { SYMTAB } };
	image.dyn[1] = (Elf64_Dyn){ DT_STRTAB, { STRTAB } };
	image.dyn[2] = (Elf64_Dyn){ DT_GNU_HASH, { HASH } };
	image.syms[1] = (Elf64_Sym){ .st_name = 1, .st_shndx = 5, .st_value = 0x1234 };
	image.syms[2] = (Elf64_Sym){ .st_name = 17, .st_shndx = 5, .st_value = 0x2000 };
	memcpy(image.strings, strings, sizeof(strings));
	image.hash.n_buckets = 1;
	image.hash.first = 1;
	image.hash.bloom_len = 1;
	image.hash.bucket = 1;
	image.hash.chain[0] = gnu_hash("_dl_debug_state") & ~1u;
	image.hash.chain[1] = gnu_hash("_r_debug") | 1;
}

static void put_image(void)
{
	fake_proc_poke(&fake, BASE, &image.header, sizeof(image.header));
	fake_proc_poke(&fake, BASE + 0x100, image.phdrs, sizeof(image.phdrs));
	fake_proc_poke(&fake, BASE + DYNAMIC, image.dyn, sizeof(image.dyn));
	fake_proc_poke(&fake, BASE + SYMTAB, image.syms, sizeof(image.syms));
	fake_proc_poke(&fake, BASE + STRTAB, image.strings, sizeof(image.strings));
	fake_proc_poke(&fake, BASE + HASH, &image.hash, sizeof(image.hash));
	/* More headers than there are could be read. */
	fake_proc_poke(&fake, BASE + 0x8000, "", 1);
}

static void put_auxv(uint64_t entry, uint64_t base)
{
	const Elf64_auxv_t auxv[] = { { AT_PAGESZ, { 4096 } }, { AT_BASE, { base } },
				      { AT_ENTRY, { entry } }, { AT_NULL, { 0 } } };

	fake_proc_put(&fake, "auxv", auxv, sizeof(auxv));
}

static void start(void)
{
	fake_proc_start(&fake);
	put_auxv(0x400000, BASE);
	memset(&ldso, 0x55, sizeof(ldso));
	reset();
}

/* Is it glibc's, as the image is now? It must be read in either case. */
static bool known(void)
{
	put_image();
	ck_ok(ht_ldso_read(&fake.target, &ldso));
	ck_assert_uint_eq(ldso.entry, 0x400000);
	ck_assert_uint_eq(ldso.base, BASE);
	ck_assert_int_eq(ldso.brk != 0, ldso.debug != 0);
	return ldso.brk != 0;
}

START_TEST(loader_of_glibc)
{
	start();
	ck_assert(known());
	ck_assert_uint_eq(ldso.brk, BASE + 0x1234);
	ck_assert_uint_eq(ldso.debug, BASE + 0x2000);
	fake_proc_stop(&fake);
}
END_TEST

START_TEST(static_programs_have_none)
{
	start();
	put_auxv(0x401000, 0);
	ck_ok(ht_ldso_read(&fake.target, &ldso));
	ck_assert_uint_eq(ldso.entry, 0x401000);
	ck_assert_uint_eq(ldso.base, 0);
	ck_assert_uint_eq(ldso.brk, 0);
	fake_proc_stop(&fake);
}
END_TEST

START_TEST(without_an_auxiliary_vector)
{
	fake_proc_start(&fake);
	ck_assert_int_eq(ht_ldso_read(&fake.target, &ldso), -ESRCH);
	fake_proc_text(&fake, "auxv", "");
	ck_assert_int_eq(ht_ldso_read(&fake.target, &ldso), -EINVAL);
	put_auxv(0, BASE);
	ck_assert_int_eq(ht_ldso_read(&fake.target, &ldso), -EINVAL);
	fake_proc_stop(&fake);
}
END_TEST

#define UNKNOWN(change)                                                                   \
	do {                                                                              \
		reset();                                                                  \
		change;                                                                   \
		ck_assert_msg(!known(), #change);                                         \
	} while (0)

/* Any file may be named as a loader. */
START_TEST(loaders_of_others)
{
	start();
	UNKNOWN(image.header.e_ident[1] = 'X');
	UNKNOWN(image.header.e_phentsize = 1);
	UNKNOWN(image.header.e_phnum = 65);
	UNKNOWN(image.header.e_phnum = 1);
	UNKNOWN(image.header.e_phoff = UINT64_MAX - BASE);
	UNKNOWN(image.phdrs[1].p_memsz = sizeof(Elf64_Dyn) - 1);
	UNKNOWN(image.phdrs[1].p_vaddr = UINT64_C(1) << 40);
	UNKNOWN(image.dyn[0].d_tag = DT_NULL);
	UNKNOWN(image.dyn[2].d_tag = DT_HASH);
	UNKNOWN(image.dyn[0].d_un.d_ptr = UINT64_C(1) << 40);
	/* One symbol of two; another's; one that is wanted, not given. */
	UNKNOWN(image.syms[2].st_shndx = SHN_UNDEF);
	UNKNOWN(image.strings[18] = 'x');
	UNKNOWN(image.syms[1].st_name = UINT32_MAX);
	/* Hash tables that lead nowhere. */
	UNKNOWN(image.hash.n_buckets = 0);
	UNKNOWN(image.hash.bucket = 0);
	UNKNOWN(image.hash.bucket = UINT32_MAX);
	UNKNOWN(image.hash.first = 2);
	UNKNOWN(image.hash.bloom_len = UINT32_MAX);
	UNKNOWN(image.hash.chain[0] |= 1);
	fake_proc_stop(&fake);
}
END_TEST

/* Both symbols at the end of one long chain of others that hash alike. */
static bool known_behind(uint32_t n)
{
	const uint32_t hash = gnu_hash("_dl_debug_state") & ~1u;
	const uint32_t last = gnu_hash("_r_debug") | 1;
	bool is;

	start();
	image.dyn[0].d_un.d_ptr = 0x100000;
	put_image();
	for (uint32_t i = 0; i <= n; i++)
		fake_proc_poke(&fake, BASE + HASH + 28 + i * 4, &hash, sizeof(hash));
	fake_proc_poke(&fake, BASE + HASH + 28 + (n + 1) * 4, &last, sizeof(last));
	fake_proc_poke(&fake, BASE + 0x100000 + (1 + n) * sizeof(Elf64_Sym), &image.syms[1],
		       2 * sizeof(Elf64_Sym));
	ck_ok(ht_ldso_read(&fake.target, &ldso));
	is = ldso.brk != 0;
	fake_proc_stop(&fake);
	return is;
}

START_TEST(long_chains_are_given_up)
{
	ck_assert(known_behind(0));
	ck_assert(known_behind(4094));
	ck_assert(!known_behind(4095));
}
END_TEST

static int state(struct r_debug debug, enum ht_ldso_state *ret_state)
{
	const struct ht_ldso at = { .debug = BASE };

	fake_proc_poke(&fake, BASE, &debug, sizeof(debug));
	return ht_ldso_state(&fake.target, &at, ret_state);
}

START_TEST(states)
{
	struct r_debug debug = { .r_version = 1, .r_map = (struct link_map *)BASE };
	const struct ht_ldso nowhere = { .debug = UINT64_C(1) << 40 };
	enum ht_ldso_state is = HT_LDSO_DELETES;

	fake_proc_start(&fake);
	debug.r_state = RT_CONSISTENT;
	ck_ok(state(debug, &is));
	ck_assert_int_eq(is, HT_LDSO_CONSISTENT);
	debug.r_state = RT_ADD;
	ck_ok(state(debug, &is));
	ck_assert_int_eq(is, HT_LDSO_ADDS);
	debug.r_state = RT_DELETE;
	ck_ok(state(debug, &is));
	ck_assert_int_eq(is, HT_LDSO_DELETES);
	memset(&debug.r_state, 0x7f, sizeof(debug.r_state));
	ck_assert_int_eq(state(debug, &is), -EINVAL);
	/* The loader hasn't got that far. */
	debug.r_version = 0;
	ck_assert_int_eq(state(debug, &is), -EAGAIN);
	debug.r_version = 1;
	debug.r_map = NULL;
	ck_assert_int_eq(state(debug, &is), -EAGAIN);
	ck_assert_int_lt(ht_ldso_state(&fake.target, &nowhere, &is), 0);
	ck_assert_int_eq(is, HT_LDSO_DELETES);
	fake_proc_stop(&fake);
}
END_TEST

int main(void)
{
	return ht_check_run("loader", (const TTest *const[]){
		loader_of_glibc, static_programs_have_none, without_an_auxiliary_vector,
		loaders_of_others, long_chains_are_given_up, states, NULL });
}
