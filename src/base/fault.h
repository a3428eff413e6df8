/* SPDX-License-Identifier: Apache-2.0
 *
 * fault.h: named places at which a test can make heaptap fail, or die.
 *
 * HEAPTAP_FAULT=NAME:kill@N kills heaptap with SIGKILL when the point NAME is passed for
 * the Nth time, NAME:stop@N stops it there until a SIGCONT comes, NAME:alarm@N
 * sends it a SIGALRM, as its own timer may; NAME:slow@N lets it sleep there for 0.2 s, as on a
 * busy machine; NAME:ERRNO@N (a number) makes the step that the point guards fail with it.
 * @N defaults to 1, @0 is each time; counted since the list was last changed. Up to four of
 * these, with commas between them.
 * HEAPTAP_FAULT_TRACE=FD writes the name of each point that is passed, a line each.
 * Compiled in by --enable-faults only; otherwise 0 and no code.
 *
 *	r = ht_fault("attach.seize");
 *	if (r < 0)
 *		return r;
 */
#ifndef HT_BASE_FAULT_H
#define HT_BASE_FAULT_H

#ifdef HT_FAULTS
/* 0, or the negative errno asked for. Doesn't return when a kill is asked for. */
int ht_fault(const char *name);
#else
static inline int ht_fault(const char *name)
{
	(void)name;
	return 0;
}
#endif

#endif
