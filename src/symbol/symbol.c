/* SPDX-License-Identifier: Apache-2.0
 *
 * symbol.c: see symbol.h. Each module's tables are read when its first frame is looked up,
 * its DWARF too; every address is looked up once.
 */
#include "symbol/symbol.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "symbol/debuginfod.h"
#include "symbol/jit-priv.h"
#include "symbol/symbol-priv.h"

#define DEFAULT_DEBUG_DIRS "/usr/lib/debug"

struct functions {
	struct ht_symbol *at;
	size_t n;
};

struct module {
	struct ht_elf elf;
	struct ht_elf debug;		/* the separate debug file */
	struct ht_symtab *symtab;
	struct ht_lines *lines;
	const char *reason;
	struct ht_symbol_text text;
	bool has_text;
	bool bare;
	struct ht_map by_addr;		/* address -> index into functions */
	ht_vec(struct functions) functions;
};

struct ht_symbols {
	const struct ht_modules *modules;
	const struct ht_jit *jit;	/* NULL: none */
	struct ht_debuginfod *debuginfod;	/* NULL: not asked */
	char *debug_dirs;
	bool no_lines;
	struct ht_strings strings;
	struct ht_map shown;		/* from where a raw name is in memory to what is shown */
	ht_vec(struct module *) by_id;
	struct module *no_module;	/* the addresses of HT_MODULE_NONE */
};

static void free_module(struct module *module)
{
	struct functions *functions;

	if (!module)
		return;
	ht_lines_free(module->lines);
	ht_symtab_free(module->symtab);
	ht_elf_fini(&module->debug);
	ht_elf_fini(&module->elf);
	ht_vec_foreach(functions, &module->functions)
		free(functions->at);
	ht_vec_fini(&module->functions);
	ht_map_fini(&module->by_addr);
	free(module);
}

static struct module *new_module(void)
{
	struct module *module = calloc(1, sizeof(*module));

	if (module)
		module->elf = module->debug = (struct ht_elf)HT_ELF_INIT;
	return module;
}

int ht_symbols_new(const struct ht_modules *modules,
		   const struct ht_symbol_options *options, struct ht_symbols **ret_symbols)
{
	const char *dirs = options ? options->debug_dirs : NULL;
	struct ht_symbols *symbols = calloc(1, sizeof(*symbols));

	if (!symbols)
		return -ENOMEM;
	symbols->modules = modules;
	symbols->debug_dirs = strdup(dirs ? dirs : DEFAULT_DEBUG_DIRS);
	symbols->no_lines = options && options->no_lines;
	symbols->jit = options ? options->jit : NULL;
	symbols->debuginfod = options && !options->no_lines ? options->debuginfod : NULL;
	symbols->no_module = new_module();
	if (!symbols->debug_dirs || !symbols->no_module) {
		ht_symbols_free(symbols);
		return -ENOMEM;
	}
	*ret_symbols = symbols;
	return 0;
}

struct ht_symbols *ht_symbols_free(struct ht_symbols *symbols)
{
	struct module **module;

	if (!symbols)
		return NULL;
	ht_vec_foreach(module, &symbols->by_id)
		free_module(*module);
	ht_vec_fini(&symbols->by_id);
	free_module(symbols->no_module);
	ht_map_fini(&symbols->shown);
	ht_strings_fini(&symbols->strings);
	free(symbols->debug_dirs);
	free(symbols);
	return NULL;
}

/* --- reading a module --------------------------------------------------------------- */

static int open_elf(struct module *module, const struct ht_module *file)
{
	int r = ht_elf_init_module(&module->elf, file);

	if (r == 0)
		module->has_text = ht_elf_text(&module->elf, &module->text);
	return r;
}

static int add_debugdata(struct module *module)
{
	struct ht_elf elf = HT_ELF_INIT;
	uint8_t *image;
	size_t len;
	int r = ht_debugdata_load(&module->elf, &image, &len);

	if (r < 0)
		return r == -ENOMEM ? r : 0;
	r = ht_elf_init_image(&elf, image, len);
	if (r == 0)
		r = ht_symtab_add(module->symtab, &elf);
	ht_elf_fini(&elf);
	free(image);
	return r == -ENOMEM ? r : 0;
}

/* A file that can't be read is only missing. */
static int open_debug(struct module *module, const char *path, const char *dirs)
{
	int fd, r;

	r = ht_debugfile_find(&module->elf, path, dirs, &fd);
	if (r == 0)
		r = ht_elf_init_fd(&module->debug, fd);
	return r == -ENOMEM ? r : 0;
}

/* Ask for what has lines, if nothing here does. A server may give anything. */
static int fetch_debug(struct module *module, const struct ht_module *file,
		       struct ht_debuginfod *debuginfod)
{
	uint8_t id[HT_BUILD_ID_MAX], got[HT_BUILD_ID_MAX];
	size_t len = ht_elf_build_id(&module->elf, id, sizeof(id));
	struct ht_elf elf;
	int fd, r;

	if (!len || ht_lines_present(&module->elf) || ht_lines_present(&module->debug))
		return 0;
	fd = ht_debuginfod_find(debuginfod, id, len, ht_module_name(file));
	if (fd < 0)
		return 0;
	r = ht_elf_init_fd(&elf, fd);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	if (ht_elf_build_id(&elf, got, sizeof(got)) != len || memcmp(id, got, len) != 0) {
		ht_elf_fini(&elf);
		return 0;
	}
	ht_elf_fini(&module->debug);
	module->debug = elf;
	return 0;
}

static int read_symtab(struct module *module)
{
	int r = ht_symtab_new(&module->symtab);

	if (r == 0)
		r = ht_symtab_add(module->symtab, &module->elf);
	if (r == 0 && !ht_symtab_full(module->symtab))
		r = ht_symtab_add(module->symtab, &module->debug);
	if (r == 0 && !ht_symtab_full(module->symtab))
		r = add_debugdata(module);
	if (r == 0)
		ht_symtab_finish(module->symtab);
	return r;
}

/* The path of an open file, symbolic links resolved. False: it has none. */
static bool path_of(int fd, char real[PATH_MAX])
{
	char self[64];
	ssize_t len;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	len = readlink(self, real, PATH_MAX - 1);
	real[ht_max(len, (ssize_t)0)] = '\0';
	return len > 0;
}

static int read_lines(struct module *module, const char *path, const char *dirs)
{
	const struct ht_elf *elf = &module->elf;
	struct ht_beside beside = HT_BESIDE_NONE;
	char real[PATH_MAX], dir[PATH_MAX];
	const char *debug_path = NULL;
	int r;

	if (!ht_lines_present(elf) && module->debug.fd >= 0) {
		elf = &module->debug;
		if (path_of(elf->fd, real))
			debug_path = real;
	}
	if (!ht_lines_present(elf))
		return 0;
	/* The supplementary file is beside the file that names it. */
	r = ht_debugfile_find_alt(elf, debug_path ? debug_path : path, dirs, &beside.alt_fd);
	if (r < 0 && r != -ENOMEM)
		module->reason = HT_LINES_ALT;
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	r = ht_debugfile_find_dwp(path, debug_path, &beside.dwp_fd);
	if (r < 0) {
		ht_fd_close(beside.alt_fd);
		return r;
	}
	snprintf(dir, sizeof(dir), "%s", debug_path ? debug_path : path);
	if (strrchr(dir, '/')) {
		strrchr(dir, '/')[1] = '\0';
		beside.dir = dir;
	}
	return ht_lines_new(elf, &beside, &module->lines, &module->reason);
}

static int read_module(struct ht_symbols *symbols, uint32_t id, struct module **ret_module)
{
	const struct ht_module *file = ht_modules_at(symbols->modules, id);
	struct module *module = new_module();
	int r;

	if (!module)
		return -ENOMEM;
	r = open_elf(module, file);
	if (r == 0)
		r = open_debug(module, ht_module_path(file), symbols->debug_dirs);
	if (r == 0 && symbols->debuginfod)
		r = fetch_debug(module, file, symbols->debuginfod);
	if (r == 0)
		r = read_symtab(module);
	/* What it took was given back, so names may well go on. */
	if (r == 0 && !symbols->no_lines &&
	    read_lines(module, ht_module_path(file), symbols->debug_dirs) < 0)
		module->reason = HT_LINES_MEMORY;
	if (r < 0 && r != -ENOEXEC) {
		free_module(module);
		return r;
	}
	*ret_module = module;
	return 0;
}

/* *ret_module is that of HT_MODULE_NONE for an id that isn't one. */
static int get_module(struct ht_symbols *symbols, uint32_t id, struct module **ret_module)
{
	*ret_module = symbols->no_module;
	if (!ht_modules_at(symbols->modules, id))
		return 0;
	while (symbols->by_id.len <= id)
		if (!ht_vec_push(&symbols->by_id))
			return -ENOMEM;
	if (!symbols->by_id.at[id]) {
		int r = read_module(symbols, id, &symbols->by_id.at[id]);

		if (r < 0)
			return r;
	}
	*ret_module = symbols->by_id.at[id];
	return 0;
}

/* --- names -------------------------------------------------------------------------- */

static const char *intern_clean(struct ht_symbols *symbols, const char *text, size_t max)
{
	_cleanup_(ht_buf_fini) struct ht_buf buf = HT_BUF_INIT;

	if (ht_symbol_clean(text, max, &buf) < 0)
		return NULL;
	return ht_strings_intern(&symbols->strings, buf.data ? buf.data : "");
}

/* What compilers hang behind a name, and how it is shown; "" isn't. */
static const struct {
	const char *suffix;
	const char *mark;
} parts[] = {
	{ "cold", " [cold]" }, { "part", " [part]" },  { "constprop", "" },
	{ "isra", "" },	       { "llvm", "" },	       { "lto_priv", "" },
	{ "localalias", "" },  { "default", "" },      { "resolver", " [resolver]" },
	{ "avx2", " [avx2]" }, { "avx", " [avx]" },    { "avx512f", " [avx512]" },
	{ "sse2", " [sse2]" }, { "__uniq", "" },
};

static const char *mark_of(const char *part, size_t len)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(parts); i++)
		if (strlen(parts[i].suffix) == len &&
		    strncmp(parts[i].suffix, part, len) == 0)
			return parts[i].mark;
	return NULL;
}

/* The length of @name without version and suffixes, and the marks for these. From the end
 * backwards, since legacy Rust names have dots inside. */
static size_t stem(const char *name, struct ht_buf *marks)
{
	const char *version = strchr(name, '@'), *mark;
	size_t end = version && version > name ? (size_t)(version - name) : strlen(name);
	size_t len = end, dot;

	for (;;) {
		for (dot = len; dot > 1 && name[dot - 1] != '.'; dot--)
			;
		if (dot <= 1)
			return end;
		mark = mark_of(name + dot, len - dot);
		if (!mark && strspn(name + dot, "0123456789") < len - dot)
			return end;
		if (mark && marks->len < 64)
			ht_buf_puts(marks, mark);
		len = dot - 1;
		/* A number goes only together with the word before it. */
		if (mark)
			end = len;
	}
}

/* A symbol's name for people. */
static const char *show(struct ht_symbols *symbols, const char *name)
{
	_cleanup_(ht_buf_fini) struct ht_buf marks = HT_BUF_INIT, text = HT_BUF_INIT;
	size_t len = stem(name, &marks);
	char *cut = len <= HT_NAME_MANGLED_MAX ? strndup(name, len) : NULL;
	char *demangled = cut ? ht_demangle(cut) : NULL;

	ht_buf_puts(&text, demangled ? demangled : cut ? cut : name);
	free(demangled);
	free(cut);
	if (marks.len)
		ht_buf_puts(&text, marks.data);
	if (text.failed || marks.failed)
		return NULL;
	return intern_clean(symbols, text.data, HT_NAME_SHOWN_MAX);
}

/* Raw names live as long as their module. Hardly one has anything to clean. */
static const char *show_linkage(struct ht_symbols *symbols, const char *name)
{
	size_t len = 0;

	while (name[len] > 0x20 && name[len] < 0x7f && len < HT_NAME_SHOWN_MAX)
		len++;
	return name[len] ? intern_clean(symbols, name, HT_NAME_SHOWN_MAX) : name;
}

/* Many addresses have the same name. */
static const char *show_once(struct ht_symbols *symbols, const char *name)
{
	uint64_t key = (uint64_t)(uintptr_t)name, *known = ht_map_get(&symbols->shown, key);
	const char *shown;

	if (known)
		return (const char *)(uintptr_t)*known;
	shown = show(symbols, name);
	if (!shown || ht_map_put(&symbols->shown, key, (uint64_t)(uintptr_t)shown) < 0)
		return NULL;
	return shown;
}

static const char *show_place(struct ht_symbols *symbols, uint32_t id, uint64_t addr)
{
	_cleanup_(ht_buf_fini) struct ht_buf text = HT_BUF_INIT;
	const struct ht_module *file = ht_modules_at(symbols->modules, id);

	if (file) {
		ht_symbol_clean(ht_module_name(file), 256, &text);
		ht_buf_putc(&text, '+');
	}
	ht_buf_printf(&text, "0x%" PRIx64, addr);
	return text.failed ? NULL : ht_strings_intern(&symbols->strings, text.data);
}

/* --- looking up --------------------------------------------------------------------- */

static const char *show_file(struct ht_symbols *symbols, const char *dir, const char *file)
{
	_cleanup_(ht_buf_fini) struct ht_buf path = HT_BUF_INIT;

	if (ht_path_join(dir, file, &path) < 0)
		return NULL;
	return intern_clean(symbols, path.data ? path.data : "", HT_NAME_SHOWN_MAX);
}

/* The symbol table's name is taken for the function itself; DWARF has only the inlined ones'. */
static int fill(struct ht_symbols *symbols, const struct ht_line *line, const char *symbol,
		struct ht_symbol *ret)
{
	const char *linkage = symbol ? symbol : line->linkage_name;
	const char *name = linkage ? linkage : line->name;

	*ret = (struct ht_symbol){ .line = line->line, .decl_line = line->decl_line,
				   .inlined = line->inlined, .unknown = !name };
	if (name && !(ret->name = show_once(symbols, name)))
		return -ENOMEM;
	if (linkage && !(ret->linkage_name = show_linkage(symbols, linkage)))
		return -ENOMEM;
	if (line->file && !(ret->file = show_file(symbols, line->dir, line->file)))
		return -ENOMEM;
	return 0;
}

static int resolve(struct ht_symbols *symbols, struct module *module, uint32_t id,
		   uint64_t addr, struct functions *ret)
{
	const char *symbol = module->symtab ? ht_symtab_find(module->symtab, addr) : NULL;
	struct ht_line lines[HT_LINES_MAX];
	size_t n = 0, i;

	lines[0] = (struct ht_line){ .name = NULL };
	if (module->lines)
		n = ht_lines_lookup(module->lines, addr, lines, HT_LINES_MAX);
	n = n ? n : 1;
	ret->at = calloc(n, sizeof(*ret->at));
	if (!ret->at)
		return -ENOMEM;
	ret->n = n;
	for (i = 0; i < n; i++)
		if (fill(symbols, &lines[i], i == n - 1 ? symbol : NULL, &ret->at[i]) < 0)
			return -ENOMEM;
	for (i = 0; i < n; i++) {
		if (ret->at[i].name)
			continue;
		ret->at[i].name = show_place(symbols, id, addr);
		if (!ret->at[i].name)
			return -ENOMEM;
		module->bare = true;
	}
	return 0;
}

/* The suffix tells that it's no symbol of a file. */
static const char *show_jit(struct ht_symbols *symbols, const char *name, const char *kind)
{
	_cleanup_(ht_buf_fini) struct ht_buf text = HT_BUF_INIT;
	char *demangled = strlen(name) <= HT_NAME_MANGLED_MAX ? ht_demangle(name) : NULL;

	ht_symbol_clean(demangled ? demangled : name, HT_NAME_SHOWN_MAX, &text);
	free(demangled);
	ht_buf_printf(&text, " [%s]", kind);
	return text.failed ? NULL : ht_strings_intern(&symbols->strings, text.data);
}

static int fill_jit(struct ht_symbols *symbols, const char *raw, size_t len, const char *kind,
		    struct ht_symbol *ret)
{
	char *line = strndup(raw, len), *name, *file;
	struct ht_jit_parts form;
	int r = 0;

	if (!line)
		return -ENOMEM;
	ht_jit_parse(line, &form);
	name = strndup(form.name, form.name_len);
	file = form.file ? strndup(form.file, form.file_len) : NULL;
	*ret = (struct ht_symbol){ .line = form.line, .decl_line = form.line };
	if (!name || !(ret->name = show_jit(symbols, name, kind)))
		r = -ENOMEM;
	if (form.file &&
	    (!file || !(ret->file = intern_clean(symbols, file, HT_NAME_SHOWN_MAX))))
		r = -ENOMEM;
	free(line);
	free(name);
	free(file);
	return r;
}

/* Code that is in no file. */
static int resolve_jit(struct ht_symbols *symbols, const struct ht_frame *frame,
		       uint64_t addr, struct functions *ret)
{
	const char *kind, *name = symbols->jit ? ht_jit_name(symbols->jit, frame, &kind) : NULL;
	int r = 0;

	if (!name) {
		symbols->no_module->bare = true;
		return resolve(symbols, symbols->no_module, HT_MODULE_NONE, addr, ret);
	}
	ret->n = 1;
	/* Java methods compiled into each other. */
	for (const char *end = name; !strcmp(kind, "java") && (end = strchr(end, '\n')); end++)
		ret->n++;
	ret->at = calloc(ret->n, sizeof(*ret->at));
	if (!ret->at)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < ret->n; i++) {
		size_t len = ret->n > 1 ? strcspn(name, "\n") : strlen(name);

		r = fill_jit(symbols, name, len, kind, &ret->at[i]);
		ret->at[i].inlined = i + 1 < ret->n;
		name += len + 1;
	}
	return r;
}

int ht_symbols_lookup(struct ht_symbols *symbols, const struct ht_frame *frame,
		      const struct ht_symbol **ret_symbols, size_t *ret_n)
{
	uint64_t addr = frame->offset, *known;
	struct functions functions = { NULL, 0 }, *slot;
	struct module *module;
	int r = get_module(symbols, frame->module, &module);

	if (r < 0)
		return r;
	if (!(frame->flags & HT_FRAME_EXACT) && addr)
		addr--;
	known = ht_map_get(&module->by_addr, addr);
	if (!known) {
		if (module == symbols->no_module)
			r = resolve_jit(symbols, frame, addr, &functions);
		else
			r = resolve(symbols, module, frame->module, addr, &functions);
		if (r == 0)
			r = ht_vec_reserve(&module->functions, module->functions.len + 1);
		if (r == 0)
			r = ht_map_put(&module->by_addr, addr, module->functions.len);
		if (r < 0) {
			free(functions.at);
			return r;
		}
		slot = ht_vec_push(&module->functions);
		*slot = functions;
	} else {
		functions = module->functions.at[*known];
	}
	*ret_symbols = functions.at;
	*ret_n = functions.n;
	return 0;
}

/* --- what was missing ---------------------------------------------------------------- */

static const struct module *peek(const struct ht_symbols *symbols, uint32_t id)
{
	return id < symbols->by_id.len ? symbols->by_id.at[id] : NULL;
}

bool ht_symbols_module_bare(struct ht_symbols *symbols, uint32_t module)
{
	const struct module *m = peek(symbols, module);

	return m && m->bare;
}

const char *ht_symbols_module_reason(struct ht_symbols *symbols, uint32_t module)
{
	const struct module *m = peek(symbols, module);

	if (!m)
		return NULL;
	return m->lines ? ht_lines_reason(m->lines) : m->reason;
}

const char *ht_symbols_debuginfod_reason(struct ht_symbols *symbols)
{
	return symbols->debuginfod ? ht_debuginfod_reason(symbols->debuginfod) : NULL;
}

const char *ht_symbols_jit_reason(struct ht_symbols *symbols)
{
	return symbols->jit && symbols->no_module->bare ? ht_jit_reason(symbols->jit) : NULL;
}

bool ht_symbols_module_text(struct ht_symbols *symbols, uint32_t module,
			    struct ht_symbol_text *ret_text)
{
	struct module *m;

	if (!ht_modules_at(symbols->modules, module) ||
	    get_module(symbols, module, &m) < 0 || !m->has_text)
		return false;
	*ret_text = m->text;
	return true;
}
