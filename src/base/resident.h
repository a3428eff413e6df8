/* SPDX-License-Identifier: Apache-2.0
 *
 * resident.h: have our own code in memory before somebody else stands still.
 */
#ifndef HT_BASE_RESIDENT_H
#define HT_BASE_RESIDENT_H

/* Read in what of our program and its libraries isn't in memory yet. A page that is missing
 * while a target is stopped would be waited for, and for ever if it is the target that serves
 * the file system (FUSE). Before Linux 5.14 only asked for, not waited for. */
void ht_resident_code(void);

#endif
