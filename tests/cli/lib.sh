# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034
# lib.sh: runs heaptap, writes down what a user would see, and compares it with
# tests/expected/cli-NAME.out, NAME being that of the test. What differs between two runs
# is masked. HT_UPDATE_GOLDEN=1 writes the expected file and shows what changed.
#
#	. "$(dirname "$0")/lib.sh"
#	show attach 4194304
#	finish
#
# stdout is written down as it is, stderr behind "! ", the exit status in brackets.

: "${HT_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${HT_BUILDDIR:=$PWD}"
: "${HEAPTAP:=$HT_BUILDDIR/heaptap}"
[ -x "$HEAPTAP" ] || { echo "no $HEAPTAP; set HT_BUILDDIR to the build tree"; exit 99; }
name=$(basename "$0" .test)
expected=$HT_SRCDIR/tests/expected/cli-$name.out
work=$(mktemp -d "${TMPDIR:-/tmp}/ht-cli.XXXXXX")
masks=$work/.masks
seen=$work/.seen
failures=0
# One that the kernel never gives out: it is the limit itself.
nobody_pid=4194304
export LC_ALL=C TERM=dumb
unset HEAPTAP_DEBUG HEAPTAP_FAULT NO_COLOR
: >"$masks"
: >"$seen"

# stop: the target; the end of its stdin ends it.
stop() {
    exec 3>&- 8>&- 9<&-
    [ -z "$target_job" ] || wait "$target_job" 2>/dev/null
    target_job=
    rm -f "$work/.stdin" "$work/.stdout"
}

cleanup() {
    stop
    rm -rf "$work"
}
target_job=
target=
trap cleanup EXIT
trap 'exit 99' HUP INT TERM

skip() {
    echo "SKIP: $1"
    exit 77
}

# lacks TEXT: a part of the test can't run; finish makes a skip of the test, unless it fails.
lacking=no
lacks() {
    echo "SKIP: $1"
    lacking=yes
}

fail() {
    echo "FAIL: $1"
    failures=$((failures + 1))
}

need() {
    command -v "$1" >/dev/null 2>&1 || skip "no $1"
}

# mask TEXT NAME: TEXT is different in each run.
mask() {
    printf 's,\\b%s\\b,%s,g\n' "$1" "$2" >>"$masks"
}

apply_masks() {
    sed -e "s|$work|DIR|g" -f "$masks" -e 's/0x[0-9a-f]\{4,\}/ADDR/g' \
        -e 's/^heaptap [0-9][0-9.]*/heaptap VERSION/'
}

# record_run COMMAND...: run it, and write down its outcome; $status is its exit status.
# record_first COMMAND...: only the first line of its stdout.
lines='$'
record_run() {
    status=0
    "$@" >"$work/.out" 2>"$work/.err" </dev/null || status=$?
    {
        sed "$lines"q "$work/.out"
        sed 's/^/! /' "$work/.err"
        echo "[$status]"
    } | apply_masks >>"$seen"
}

record_first() {
    lines=1
    record_run "$@"
    lines='$'
}

# refused PID: attach doesn't tap it, doctor says why first of all, with the same status, and
# the target, if it's that, is as it was.
refused() {
    [ "$1" != "$target" ] || before none
    show attach "$1"
    echo "\$ heaptap doctor $1" | apply_masks >>"$seen"
    record_first "$HEAPTAP" doctor "$1"
    [ "$1" != "$target" ] || unharmed
}

# refused_user PID: the same without privileges.
refused_user() {
    [ "$1" != "$target" ] || before none
    show_as_user attach "$1"
    echo "\$ heaptap doctor $1" | apply_masks >>"$seen"
    record_first as_user "$HEAPTAP" doctor "$1"
    [ "$1" != "$target" ] || unharmed
}

# show ARG...: heaptap with these arguments.
show() {
    echo "\$ heaptap $*" | apply_masks >>"$seen"
    record_run "$HEAPTAP" "$@"
}

# note TEXT: a line between the runs.
note() {
    echo "# $*" | apply_masks >>"$seen"
}

# expect_status STATUS ARG...: for what need not be spelled out.
expect_status() {
    want=$1
    shift
    status=0
    "$HEAPTAP" "$@" >"$work/.out" 2>"$work/.err" </dev/null || status=$?
    [ "$status" -eq "$want" ] || fail "heaptap $*: status $status, not $want
$(cat "$work/.err")"
}

# start COMMAND...: a target that prints "READY PID" and exits when its stdin ends;
# "SKIP why" skips the test. $target is the pid that it tells.
start() {
    rm -f "$work/.stdin" "$work/.stdout"
    mkfifo "$work/.stdin" "$work/.stdout"
    # The job must not hold the writing end of its own stdin, or it would never end.
    "$@" <"$work/.stdin" >"$work/.stdout" 3>&- 8>&- 9<&- &
    target_job=$!
    exec 8>"$work/.stdin" 9<"$work/.stdout"
    read -r word target <&9 || { echo "$1 didn't start"; exit 99; }
    case $word in
    READY) mask "$target" PID; for target_kind; do :; done ;;
    SKIP) skip "$target" ;;
    *) echo "$1 said $word $target"; exit 99 ;;
    esac
}

odd_process=$HT_BUILDDIR/tests/cli/odd_process

# tell LINE: to the worker that was started; returns when it's done.
tell() {
    echo "$1" >&8
    word=nothing
    read -r word <&9
    [ "$word" = DONE ] || fail "the worker said $word to $1"
}

# before none|anon: look at the target, which waits for a line. unharmed: it looks as it
# did, by its signals, files, threads, mappings (but for the unnamed ones with "anon") and all of
# its code, nothing of heaptap is in it, and it works.
before() {
    [ -p "$work/.look" ] || mkfifo "$work/.look" "$work/.looked"
    exec 3>&-
    "$HT_BUILDDIR/tests/cli/unchanged" "$target" "$work/.looked" "$1" <"$work/.look" \
        7>&- 8>&- 9<&- &
    exec 3>"$work/.look"
    cat "$work/.looked"
}

unharmed() {
    echo >&3
    cat "$work/.looked" >"$work/.changed"
    [ ! -s "$work/.changed" ] || fail "the target was changed: $(cat "$work/.changed")"
    kill -0 "$target" || { fail "the target is gone"; return; }
    case $target_kind in
    worker | filter | strict | traced | undumpable) tell 'keep 10 100' ;;
    esac
}

# tap ARG...: heaptap in the background, its stdout in $work/.out, its stderr in $work/.err;
# returns when the target is tapped. end SIGNAL: ends it and waits for it; $status.
tap() {
    rm -f "$work/.tap"
    mkfifo "$work/.tap"
    # No heaptap outlives its test; signals are passed on.
    timeout --foreground 100 "$HEAPTAP" "$@" 2>"$work/.tap" >"$work/.out" </dev/null \
        8>&- 9<&- &
    tap_job=$!
    exec 7<"$work/.tap"
    : >"$work/.err"
    while read -r line <&7; do
        echo "$line" >>"$work/.err"
        case $line in
        "heaptap: tapping "*) return ;;
        esac
    done
    status=0
    wait "$tap_job" || status=$?
    fail "heaptap $*: status $status: $(cat "$work/.err")"
    exec 7<&-
    false
}

end() {
    [ "$1" = none ] || kill "-$1" "$tap_job"
    cat <&7 >>"$work/.err"
    exec 7<&-
    status=0
    wait "$tap_job" || status=$?
}

# many WORD...: the words, HT_HARM times, for what is tried more often in a long run.
many() {
    n=0
    while [ $n -lt "${HT_HARM:-1}" ]; do
        echo "$@"
        n=$((n + 1))
    done
}

# need_tap: tapping works here at all.
need_tap() {
    need timeout
    "$HEAPTAP" doctor "$1" >"$work/.out" 2>&1 || skip "$(head -n 1 "$work/.out")"
}

# has FILE PATTERN: a line of the file matches.
has() {
    grep -q -- "$2" "$work/$1" || fail "no \"$2\" in $1: $(cat "$work/$1")"
}

has_not() {
    ! grep -q -- "$2" "$work/$1" || fail "\"$2\" in $1: $(cat "$work/$1")"
}

is_status() {
    [ "$status" -eq "$1" ] || fail "status $status, not $1: $(cat "$work/.err")"
}

# nothing_mapped PID: nothing of heaptap is in it.
nothing_mapped() {
    ! grep heaptap: "/proc/$1/maps" || fail "heaptap left something in $1"
}

# nothing_left FILE: no temporary file of it is beside it.
nothing_left() {
    for left in "$work/.$1".*; do
        [ ! -e "$left" ] || fail "left behind: $left"
    done
}

# as_user COMMAND...: without privileges.
as_user() {
    if [ "$(id -u)" -ne 0 ]; then
        "$@"
    else
        setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all "$@"
    fi
}

# show_as_user ARG...: as show, without privileges.
show_as_user() {
    echo "\$ heaptap $*" | apply_masks >>"$seen"
    record_run as_user "$HEAPTAP" "$@"
}

# need_user: as_user works, and can run heaptap from where it was built.
need_user() {
    [ "$(id -u)" -ne 0 ] || need setpriv
    as_user "$HEAPTAP" --version >/dev/null 2>&1 ||
        skip "$HEAPTAP can't be run by an unprivileged user"
}

finish() {
    if [ -n "${HT_UPDATE_GOLDEN:-}" ] && [ -s "$seen" ]; then
        diff -u "$expected" "$seen" || cp "$seen" "$expected"
    elif [ -s "$seen" ] && ! diff -u "$expected" "$seen"; then
        fail "not as in tests/expected/${expected##*/}; make update-golden takes it over"
    fi
    [ "$failures" -eq 0 ] || exit 1
    [ "$lacking" = no ] || exit 77
    exit 0
}
