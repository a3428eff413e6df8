/* SPDX-License-Identifier: Apache-2.0
 *
 * A program for test_lines and test_symbol: known inlines, names as C++ mangles them, a
 * part that is split off as cold, symbols of several kinds at one address.
 */
#include <stdio.h>
#include <stdlib.h>

#define INLINE static inline __attribute__((always_inline))

int weight(int x) __asm__("_ZN3box6weightEi");
int heavy(int x) __asm__("_ZN3box5heavyILi7EEEii");

static volatile int four = 4;

INLINE int innermost(int x)
{
	return x * 3 + four;
}

INLINE int middle(int x)
{
	int sum = 0;

	for (int i = 0; i < x; i++)
		sum += innermost(i);
	return sum;
}

__attribute__((noinline)) int weight(int x)
{
	return middle(x) + middle(x + 1);
}

__attribute__((noinline)) int heavy(int x)
{
	{
		int y = x + 1;

		x += innermost(y);
	}
	return x + weight(x);
}

__attribute__((cold, noinline)) static void complain(int x)
{
	printf("bad %d\n", x);
	abort();
}

__attribute__((noinline)) int checked(int x)
{
	if (x < 0) {
		complain(x);
		complain(x + 1);
	}
	return heavy(x) + 1;
}

int checked_alias(int x) __attribute__((alias("checked"), weak));

int main(int argc, char **argv)
{
	(void)argv;
	return checked(argc) > 1000;
}
