/* SPDX-License-Identifier: Apache-2.0
 *
 * ht_patience.c: see ht_patience.h.
 */
#include "ht_patience.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"

#define SECONDS 20

double ht_test_patience(double seconds)
{
	double load, each;

	if (getloadavg(&load, 1) != 1)
		return seconds;
	each = load / (double)sysconf(_SC_NPROCESSORS_ONLN);
	return each > 1 ? seconds * each : seconds;
}

uint64_t ht_test_deadline_ns(void)
{
	return ht_deadline_ns((uint64_t)(ht_test_patience(SECONDS) * 1e9));
}
