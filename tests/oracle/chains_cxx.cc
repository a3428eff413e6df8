/* SPDX-License-Identifier: Apache-2.0
 *
 * chains_cxx.cc: chains of calls (chains.h) in C++: exceptions on their way up, what
 * destructors and handlers do there, virtual calls, library code made from templates.
 */
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "chains.h"

#if defined(__clang__)
#define noinline __attribute__((noinline))
#else
#define noinline __attribute__((noinline, noclone))
#endif

static noinline void allocate(int n)
{
	unsigned long mark = chains.n;
	volatile char room[40];

	NOTE(0);
	room[n % 40] = 1;
	DIRECTLY(free(malloc((size_t)n + 1)));
	BY_LIBRARY(operator delete(operator new((size_t)n + 1)));
	chains_sink += room[n % 40];
	chains.n = mark;
}

/* Allocates when its scope is left, also by an exception: then the notes of those below have
 * to be forgotten first. */
struct guard {
	unsigned long own;	/* notes up to that of the function it is in */

	guard() : own(chains.n) {}
	noinline ~guard()
	{
		chains.n = own;
		NOTE(0);
		allocate(3);
		chains.n = own;
	}
};

static noinline long throws(int depth)
{
	unsigned long mark = chains.n;
	long r = 0;

	NOTE(0);
	if (depth == 0 && chains_one)
		BY_LIBRARY(throw std::runtime_error("a text that is too long to be kept inside"));
	if (depth % 3 == 1) {
		guard here;
		r = throws(depth - 1) + 1;
	} else if (depth % 3 == 2) {
		volatile long values[20] = { depth };

		r = throws(depth - 1) + values[depth % 20];
	} else {
		alignas(64) volatile char room[64] = { 1 };
		guard here;

		r = throws(depth - 1) + room[depth % 64];
	}
	chains.n = mark;
	return r;
}

static noinline void catches(int depth)
{
	unsigned long mark = chains.n;

	NOTE(0);
	try {
		chains_sink += throws(depth);
	} catch (const std::exception &error) {
		chains_armed = 0;
		chains.n = mark + 1;
		allocate(depth);
		if (depth % 2) {
			guard here;

			throw;
		}
	}
	chains.n = mark;
}

static noinline void exceptions()
{
	unsigned long mark = chains.n;

	NOTE(0);
	for (int depth = 0; depth < 8; depth++) {
		try {
			catches(depth);
		} catch (...) {
			chains.n = mark + 1;
			allocate(depth);
		}
	}
	chains.n = mark;
}

struct shape {
	virtual ~shape() {}
	virtual long area(long n) const = 0;
};

struct square : shape {
	noinline long area(long n) const override
	{
		unsigned long mark = chains.n;

		NOTE(0);
		allocate((int)n);
		chains.n = mark;
		return n * n;
	}
};

static noinline const shape *any_shape()
{
	static square one;

	return chains_one ? &one : nullptr;
}

static noinline void virtuals()
{
	unsigned long mark = chains.n;
	double keep = chains_one * 1.5;

	NOTE(0);
	chains_sink += any_shape()->area(7) + (long)keep;
	chains.n = mark;
}

static noinline bool by_value(long a, long b)
{
	unsigned long mark = chains.n;

	NOTE(THROUGH | PERHAPS);
	allocate((int)(a + b));
	chains.n = mark;
	return a < b;
}

static noinline void templates()
{
	unsigned long mark = chains.n;
	std::vector<long> values = { 3, 1, 2 };
	std::map<std::string, long> words;
	std::function<bool(long, long)> compare = by_value;

	NOTE(0);
	std::sort(values.begin(), values.end(), compare);
	BY_LIBRARY(words["a word that is too long to be kept inside"] = values[0]);
	BY_LIBRARY(values.resize(values.size() * 100));
	chains_sink += values[1] + (long)words.size();
	chains.n = mark;
}

noinline void chains_cxx(void)
{
	unsigned long mark = chains.n;

	NOTE(0);
	exceptions();
	virtuals();
	templates();
	chains.n = mark;
}
