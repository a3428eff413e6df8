#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# unwind-builds.sh: the tests of the walkers, with their target built in other ways: other
# optimisation, frame pointers, static, position independent or not, and by linkers that put
# two segments into one page of the file.
set -u

src=${HT_SRCDIR:-.}/tests/targets/chain.c
build=${HT_BUILDDIR:-.}
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/tests/targets"
tried=0
failed=0

# with COMPILER FLAG...
with()
{
	if ! "$@" -std=gnu11 -pthread -w "$src" -o "$tmp/tests/targets/chain" 2>/dev/null; then
		echo "$*: can't be built here"
		return
	fi
	tried=$((tried + 1))
	for t in test_unwind test_live; do
		if HT_BUILDDIR=$tmp "$build/tests/unit/$t" >"$tmp/out" 2>&1; then
			echo "$*: $t: fine"
		else
			echo "$*: $t:"
			cat "$tmp/out"
			failed=1
		fi
	done
}

[ -x "$build/tests/unit/test_unwind" ] || { echo "SKIP: no unit tests were built"; exit 77; }
with gcc -O0
with gcc -O3 -static-pie
with gcc -O2 -fno-omit-frame-pointer -static
with gcc -O2 -fuse-ld=lld -no-pie
with clang -O2 -fuse-ld=lld
[ "$tried" -gt 0 ] || { echo "SKIP: no compiler"; exit 77; }
exit "$failed"
