/* SPDX-License-Identifier: Apache-2.0
 *
 * addr.h: addresses in the target. Never a pointer here.
 */
#ifndef HT_BASE_ADDR_H
#define HT_BASE_ADDR_H

#include <inttypes.h>
#include <stdint.h>

typedef uint64_t ht_addr_t;
#define HT_PRIxADDR "0x%" PRIx64

#endif
