/* SPDX-License-Identifier: Apache-2.0
 *
 * output.c: the files that reports go to.
 *
 * A recording can't be repeated, so whether its report can be written is tried before the
 * target is touched, and a full disk may cost neither the old file nor leave half a new
 * one: a regular file is written beside its place and renamed over it. The new file has
 * no name until it is complete where the file system can do that (O_TMPFILE), so nothing
 * is left behind by a heaptap that is killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cmd/record.h"

#define TEMP_TRIES 100
#define LINKS_MAX 40		/* as in the kernel */

static void freep(char **p)
{
	free(*p);
}

static int cant_write(struct ht_err *err, int r, const char *path)
{
	return ht_err_set(err, HT_ERR_FAILED, r, "can't write %s: %s", path, strerror(-r));
}

static bool is_binary(const struct ht_report_format *format)
{
	/* Compressed formats are for programs, and all are called so. */
	const char *end = format->suffix ? strrchr(format->suffix, '.') : NULL;

	return end && (!strcmp(end, ".gz") || !strcmp(end, ".pftrace"));
}

static bool wants_color(enum ht_color color, int fd)
{
	const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");

	if (color != HT_COLOR_AUTO)
		return color == HT_COLOR_ALWAYS;
	return isatty(fd) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

/* A standard stream. */
static int open_stream(struct ht_output *output, const struct ht_record_options *options,
		       int fd, struct ht_err *err)
{
	struct winsize size;
	int flags = fcntl(fd, F_GETFL);

	output->name = fd == STDOUT_FILENO ? "the standard output" : "the standard error";
	output->format = options->format ? options->format : &ht_report_text;
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
		return ht_err_set(err, HT_ERR_FAILED, -EBADF,
				  "can't write %s: it is closed; give a file with --output",
				  output->name);
	if (is_binary(output->format) && isatty(fd))
		return ht_err_set(err, HT_ERR_USAGE, -EINVAL,
				  "the format %s is not for terminals; give a file with --output",
				  output->format->name);
	output->fd = fd;
	output->color = wants_color(options->color, fd);
	if (isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0)
		output->width = size.ws_col;
	return 0;
}

/* If @path is a link to what isn't there, put that in its place. 1: it was. */
static int follow_link(char **path)
{
	char *slash = strrchr(*path, '/'), *joined;
	char to[PATH_MAX];
	ssize_t len = readlink(*path, to, sizeof(to) - 1);

	if (len < 0)
		return errno == EINVAL || errno == ENOENT ? 0 : -errno;
	to[len] = '\0';
	if (asprintf(&joined, "%.*s%s", slash && *to != '/' ? (int)(slash + 1 - *path) : 0,
		     *path, to) < 0)
		return -ENOMEM;
	free(*path);
	*path = joined;
	return 1;
}

/* The folder and name behind @path, through symbolic links: a link is not replaced but
 * what it points to. */
static int split_path(const char *path, char **ret_folder, char **ret_base)
{
	_cleanup_(freep) char *real = realpath(path, NULL);
	_cleanup_(freep) char *copy = NULL;
	char *slash;
	int r = 0;

	if (!real && errno != ENOENT)
		return -errno;
	copy = strdup(real ? real : path);
	if (!copy)
		return -ENOMEM;
	for (int i = 0; !real && i <= LINKS_MAX && (r = follow_link(&copy)) > 0; i++)
		;
	if (r != 0)
		return r < 0 ? r : -ELOOP;
	slash = strrchr(copy, '/');
	*ret_base = strdup(slash ? slash + 1 : copy);
	if (slash)
		slash[slash == copy] = '\0';
	*ret_folder = strdup(slash ? copy : ".");
	if (!*ret_base || !*ret_folder)
		return -ENOMEM;
	return **ret_base ? 0 : -EISDIR;
}

/* @act with fresh names until one is free. */
static int with_temp_name(struct ht_output *output, int (*act)(struct ht_output *output))
{
	uint64_t random;
	int r = -EEXIST;

	for (int i = 0; i < TEMP_TRIES && r == -EEXIST; i++) {
		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return -EIO;
		free(output->temp);
		output->temp = NULL;
		if (asprintf(&output->temp, ".%.200s.%016llx", output->base,
			     (unsigned long long)random) < 0) {
			output->temp = NULL;
			return -ENOMEM;
		}
		r = act(output);
	}
	if (r < 0) {
		free(output->temp);
		output->temp = NULL;
	}
	return r;
}

static int create_temp(struct ht_output *output)
{
	output->fd = ht_errno_of(openat(output->dirfd, output->temp,
					O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
	return ht_min(output->fd, 0);
}

static int link_temp(struct ht_output *output)
{
	char self[64];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", output->fd);
	return ht_errno_of(linkat(AT_FDCWD, self, output->dirfd, output->temp,
				  AT_SYMLINK_FOLLOW));
}

static int open_beside(struct ht_output *output, const char *folder, const struct stat *old)
{
	int r;

	output->dirfd = ht_errno_of(open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC));
	if (output->dirfd < 0)
		return output->dirfd;
	/* Renaming would replace a file that we may not write to. */
	if (old && faccessat(output->dirfd, output->base, W_OK, AT_EACCESS) < 0)
		return -errno;
	output->fd = openat(output->dirfd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
	if (output->fd < 0) {
		r = with_temp_name(output, create_temp);
		if (r < 0)
			return r;
	}
	if (!old)
		return 0;
	/* Only root can keep the owner; without it the mode is what counts. */
	if (fchown(output->fd, old->st_uid, old->st_gid) < 0 && errno != EPERM)
		return -errno;
	return ht_errno_of(fchmod(output->fd, old->st_mode & 0777));
}

/* It can't be opened before it has a reader. Wait for one, as everybody does who writes to a
 * named pipe, but say so: nothing else would tell why nothing happens. */
static int open_fifo(const char *path)
{
	int fd = ht_errno_of(open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC));

	if (fd == -ENXIO) {
		ht_cmd_talk("%s has no reader yet, and is waited for; Ctrl-C ends that", path);
		return ht_errno_of(open(path, O_WRONLY | O_CLOEXEC));
	}
	if (fd >= 0)
		fcntl(fd, F_SETFL, O_WRONLY);
	return fd;
}

static int open_file(struct ht_output *output, const char *path)
{
	_cleanup_(freep) char *folder = NULL;
	struct stat st;
	bool exists = stat(path, &st) == 0;
	int r;

	if (exists && S_ISDIR(st.st_mode))
		return -EISDIR;
	if (exists && !S_ISREG(st.st_mode)) {
		output->fd = S_ISFIFO(st.st_mode) ?
			open_fifo(path) :
			ht_errno_of(open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC));
		return ht_min(output->fd, 0);
	}
	r = split_path(path, &folder, &output->base);
	if (r < 0)
		return r;
	return open_beside(output, folder, exists ? &st : NULL);
}

static int choose_format(struct ht_output *output, const struct ht_record_options *options,
			 const char *path, struct ht_err *err)
{
	char known[256] = "";
	struct stat st;
	size_t len = 0;

	output->format = options->format ? options->format : ht_report_format_by_path(path);
	/* The endings of devices and pipes say nothing. */
	if (!output->format && stat(path, &st) == 0 && !S_ISREG(st.st_mode) &&
	    !S_ISDIR(st.st_mode))
		output->format = &ht_report_text;
	if (output->format)
		return 0;
	for (size_t i = 0; ht_report_formats[i] && len < sizeof(known); i++)
		len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s (%s)",
					i ? ", " : "", ht_report_formats[i]->suffix,
					ht_report_formats[i]->name);
	return ht_err_set(err, HT_ERR_USAGE, -EINVAL,
			  "no format has the ending of \"%s\", only %s; or give one with --format",
			  path, known);
}

static int open_path(struct ht_output *output, const struct ht_record_options *options,
		     const char *path, struct ht_err *err)
{
	int r;

	if (!strcmp(path, "-"))
		return open_stream(output, options, STDOUT_FILENO, err);
	output->name = path;
	r = choose_format(output, options, path, err);
	if (r < 0)
		return r;
	r = open_file(output, path);
	if (r < 0)
		return cant_write(err, r, path);
	output->color = options->color == HT_COLOR_ALWAYS;
	return 0;
}

/* Two names of one file: the second report would take the place of the first. */
static bool same_file(const struct ht_output *a, const struct ht_output *b)
{
	struct stat st_a, st_b;

	return a->dirfd >= 0 && b->dirfd >= 0 && !strcmp(a->base, b->base) &&
	       fstat(a->dirfd, &st_a) == 0 && fstat(b->dirfd, &st_b) == 0 &&
	       st_a.st_dev == st_b.st_dev && st_a.st_ino == st_b.st_ino;
}

static int check_distinct(const struct ht_outputs *outputs, struct ht_err *err)
{
	const struct ht_output *last = &outputs->at[outputs->n - 1];

	for (size_t i = 0; i + 1 < outputs->n; i++)
		if (same_file(&outputs->at[i], last))
			return ht_err_set(err, HT_ERR_USAGE, -EINVAL,
					  "--output: \"%s\" and \"%s\" are the same file",
					  outputs->at[i].name, last->name);
	return 0;
}

int ht_outputs_open(struct ht_outputs *outputs, const struct ht_record_options *options,
		    int fallback_fd, struct ht_err *err)
{
	int r = 0;

	for (size_t i = 0; i < ht_max(options->n_paths, (size_t)1) && r == 0; i++) {
		struct ht_output *output = &outputs->at[outputs->n++];

		*output = (struct ht_output){ .fd = -1, .dirfd = -1 };
		r = options->n_paths ? open_path(output, options, options->paths[i], err) :
				       open_stream(output, options, fallback_fd, err);
		if (r == 0)
			r = check_distinct(outputs, err);
	}
	if (r < 0)
		ht_outputs_close(outputs);
	return r;
}

int ht_output_write(struct ht_output *output, const struct ht_buf *data, struct ht_err *err)
{
	int r = ht_cmd_write(output->fd, output->name, data->data, data->len, err);

	if (r < 0 || output->fd == STDOUT_FILENO || output->fd == STDERR_FILENO)
		return r;
	if (output->dirfd >= 0 && !output->temp) {
		r = with_temp_name(output, link_temp);
		if (r < 0)
			return cant_write(err, r, output->name);
	}
	r = ht_errno_of(close(output->fd));
	output->fd = -1;
	if (r < 0)
		return cant_write(err, r, output->name);
	if (output->dirfd < 0)
		return 0;
	r = ht_errno_of(renameat(output->dirfd, output->temp, output->dirfd, output->base));
	if (r < 0)
		return cant_write(err, r, output->name);
	free(output->temp);
	output->temp = NULL;
	return 0;
}

void ht_outputs_close(struct ht_outputs *outputs)
{
	for (size_t i = 0; i < outputs->n; i++) {
		struct ht_output *output = &outputs->at[i];

		if (output->temp)
			unlinkat(output->dirfd, output->temp, 0);
		if (output->fd != STDOUT_FILENO && output->fd != STDERR_FILENO)
			output->fd = ht_fd_close(output->fd);
		output->dirfd = ht_fd_close(output->dirfd);
		free(output->base);
		free(output->temp);
		output->base = output->temp = NULL;
	}
	outputs->n = 0;
}
