/* SPDX-License-Identifier: Apache-2.0
 *
 * faults.c: see faults.h. In the order in which they are passed first.
 */
#include "attach/faults.h"

#include <stddef.h>

const char *const ht_stop_faults[] = {
	"attach.seize", "attach.seizing", "attach.interrupt", "attach.repair", "attach.rescan",
	"attach.stopped", "attach.resume", "attach.detach", "attach.late", NULL,
};

const char *const ht_remote_faults[] = {
	"remote.save", "remote.begin", "remote.frame", "remote.divert", "remote.mask",
	"remote.entry", "remote.exit", "remote.mmap", "remote.stub",
	"remote.protect", "remote.calls", "remote.notice", "remote.stack", "remote.open",
	"remote.close", "remote.munmap", "remote.unmapped", "remote.stop", "remote.restore",
	"remote.unmask", "remote.regs", NULL,
};

const char *const ht_remote_call_faults[] = {
	"remote.call", "remote.called", "remote.return", "remote.cancel", NULL,
};

const char *const ht_launch_faults[] = {
	"launch.fork", "launch.seize", "launch.exec", "launch.poke",
	"launch.break", "launch.unpoke", "launch.outlive", NULL,
};
