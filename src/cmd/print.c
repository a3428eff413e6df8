/* SPDX-License-Identifier: Apache-2.0
 *
 * print.c: stdout is data and must arrive whole, stderr is talk.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cmd/cmd.h"

void ht_cmd_talk(const char *fmt, ...)
{
	char line[HT_ERR_TEXT + 256];
	size_t len = (size_t)snprintf(line, sizeof(line), "heaptap: ");
	va_list args;
	int r;

	va_start(args, fmt);
	r = vsnprintf(line + len, sizeof(line) - len - 1, fmt, args);
	va_end(args);
	if (r < 0)
		return;
	len = strlen(line);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)line[i];

		if ((c < ' ' && c != '\n') || c == 0x7f)
			line[i] = '?';
	}
	line[len++] = '\n';
	r = ht_fd_write_all(STDERR_FILENO, line, len);
	(void)r;
}

int ht_cmd_write(int fd, const char *name, const void *data, size_t len, struct ht_err *err)
{
	struct stat st;
	int r = ht_fd_write_all(fd, data, len);

	/* File systems with late allocation, quotas or a network report a full disk only
	 * when the data is flushed. */
	if (r == 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && fsync(fd) < 0 &&
	    errno != EINVAL && errno != EROFS && errno != EOPNOTSUPP)
		r = -errno;
	if (r == -EPIPE)
		return ht_err_set(err, HT_ERR_FAILED, r,
				  "can't write %s: its reader went away", name);
	if (r < 0)
		return ht_err_set(err, HT_ERR_FAILED, r, "can't write %s: %s%s", name,
				  strerror(-r), ht_err_write_advice(r));
	return 0;
}

int ht_cmd_print(const struct ht_buf *out, struct ht_err *err)
{
	if (out->failed)
		return ht_err_set(err, HT_ERR_FAILED, -ENOMEM, "out of memory");
	return ht_cmd_write(STDOUT_FILENO, "the standard output", out->data ? out->data : "",
			    out->len, err);
}
