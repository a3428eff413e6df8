/* SPDX-License-Identifier: Apache-2.0
 *
 * compiler.h: the compiler extensions that the code uses, under readable names.
 * The only place that spells them out. No dependency on anything else.
 */
#ifndef HT_BASE_COMPILER_H
#define HT_BASE_COMPILER_H

#define _must_check_ __attribute__((warn_unused_result))
#define _nonnull_ __attribute__((nonnull))
#define _nonnull_args_(...) __attribute__((nonnull(__VA_ARGS__)))
#define _printf_format_(fmt, args) __attribute__((format(printf, fmt, args)))
#define _cleanup_(fn) __attribute__((cleanup(fn)))
#define _packed_ __attribute__((packed))
#define _aligned_(n) __attribute__((aligned(n)))
#define _cold_ __attribute__((cold, noinline))
#define _noreturn_ __attribute__((noreturn))
#define _unused_ __attribute__((unused))
#define _hidden_ __attribute__((visibility("hidden")))
#define _export_ __attribute__((visibility("default")))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define ht_min(a, b) ({ __typeof__(a) a_ = (a); __typeof__(b) b_ = (b); a_ < b_ ? a_ : b_; })
#define ht_max(a, b) ({ __typeof__(a) a_ = (a); __typeof__(b) b_ = (b); a_ > b_ ? a_ : b_; })

/* Round up/down to a power of two. */
#define ht_align_up(x, to) (((x) + (to)-1) & ~((__typeof__(x))(to)-1))
#define ht_align_down(x, to) ((x) & ~((__typeof__(x))(to)-1))

#endif
