# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# lib.sh: for the self-tests of the linters: a small clean tree, and "this change must be
# found". A gate that can't fail is no gate.

: "${HT_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
tools=$HT_SRCDIR/tools
work=$(mktemp -d "${TMPDIR:-/tmp}/ht-lint.XXXXXX")
trap 'rm -rf "$work"' EXIT
failures=0

need() {
    command -v "$1" >/dev/null 2>&1 || { echo "SKIP: no $1"; exit 77; }
}

fail() {
    echo "FAIL: $1"
    failures=$((failures + 1))
}

# A tree in which no linter finds anything.
clean_tree() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree/src/base" "$work/tree/src/attach" "$work/tree/src/unwind" \
        "$work/tree/src/ledger" "$work/tree/src/cmd" "$work/tree/src/hook" \
        "$work/tree/include/heaptap"
    spdx='/* SPDX-License-Identifier: Apache-2.0 */'
    for header in base/err.h attach/target.h attach/remote-priv.h unwind/frame.h \
        unwind/space.h ledger/ledger.h; do
        echo "$spdx" >"$work/tree/src/$header"
    done
    echo "$spdx" >"$work/tree/include/heaptap/wire.h"
    for file in base/err attach/stop unwind/walk ledger/trie hook/hook cmd/main; do
        echo "$spdx" >"$work/tree/src/$file.c"
    done
}

# accept LINTER FILE TEXT: with TEXT at the end of FILE the linter is still content.
accept() {
    clean_tree
    printf '%s\n' "$3" >>"$work/tree/$2"
    "$tools/$1" "$work/tree" >"$work/out" 2>&1 ||
        fail "$1 refused, in $2: $3
$(cat "$work/out")"
}

# reject LINTER FILE TEXT WORDS: it must fail, and say WORDS.
reject() {
    clean_tree
    printf '%s\n' "$3" >>"$work/tree/$2"
    if "$tools/$1" "$work/tree" >"$work/out" 2>&1; then
        fail "$1 accepted, in $2: $3"
    elif ! grep -qF -- "$4" "$work/out"; then
        fail "$1 didn't say \"$4\" of, in $2: $3
$(cat "$work/out")"
    fi
}

# An empty tree must not pass: a moved folder would switch the gate off.
reject_empty() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree"
    if "$tools/$1" "$work/tree" >"$work/out" 2>&1; then
        fail "$1 accepted an empty tree"
    fi
}

finish() {
    [ "$failures" -eq 0 ] || { echo "$failures failed"; exit 1; }
}
