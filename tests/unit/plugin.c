/* SPDX-License-Identifier: Apache-2.0
 *
 * A library for test_symbol_live, which deletes it while it is mapped.
 */
int plugin_work(int x);

static inline __attribute__((always_inline)) int plugin_inline(int x)
{
	static volatile int factor = 3;

	return x * factor;
}

int plugin_work(int x)
{
	return plugin_inline(x) + 1;
}
