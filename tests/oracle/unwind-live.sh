#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# unwind-live.sh: the stacks of real programs, ours against eu-stack's. Every thread has to
# give the same addresses up to the first frame that is found without unwind data, where
# both guess, each in its own way.
set -u

command -v eu-stack >/dev/null || { echo "SKIP: eu-stack isn't there"; exit 77; }
ours=${HT_BUILDDIR:-.}/tests/oracle/unwind_live
tmp=$(mktemp -d) || exit 99
pid=
# shellcheck disable=SC2317 # called by the trap
cleanup()
{
	if [ -n "$pid" ]; then
		kill -9 "$pid" 2>/dev/null
	fi
	rm -rf "$tmp"
}
trap cleanup EXIT
unset DEBUGINFOD_URLS

# eu-stack's output as one line a thread: TID PC PC ...
flatten()
{
	awk '/^TID/ { if (tid) print line; tid = $2; sub(":", "", tid); line = tid }
	     /^#/ { pc = $2; sub("^0x0*", "", pc); line = line " " pc }
	     END { if (tid) print line }'
}

# Compare: threads, frames compared, complete ends; lines that differ.
compare()
{
	awk 'NR == FNR { n = $1; sub("^[0-9]+ ", ""); theirs[n] = $0; next }
	     { threads++; n = split(theirs[$1], pcs, " ")
	       if ($2 == 0) complete++
	       for (i = 3; i <= NF && i - 2 <= n; i++) {
		       if ($i ~ /\*$/) break
		       frames++
		       if ($i != "method" && $i != pcs[i - 2]) {
			       print "DIFFERENT at frame " i - 3 " of thread " $1
			       print "  ours:   " $0
			       print "  theirs: " theirs[$1]
			       bad++; break
		       }
	       }
	       if (i > NF && $2 == 0 && NF - 2 != n) {
		       print "LENGTH " NF - 2 " and " n " of thread " $1; bad++
	       } }
	     END { print threads + 0 " threads, " frames + 0 " frames, " \
			 complete + 0 " complete, " bad + 0 " different"
		   exit bad > 0 || threads == 0 }' "$1" "$2"
}

tried=0
failed=0
# look NAME COMMAND...: the command prints a line when it has come to rest.
look()
{
	name=$1
	shift
	command -v "$1" >/dev/null || { echo "$name: not there"; return; }
	mkfifo "$tmp/out" "$tmp/in" || exit 99
	"$@" <"$tmp/in" >"$tmp/out" 2>/dev/null &
	pid=$!
	exec 8>"$tmp/in" 9<"$tmp/out"
	if ! read -r _ <&9; then
		echo "$name: doesn't start here"
	else
		tried=$((tried + 1))
		# Both have to see the same moment.
		kill -STOP "$pid"
		turns=0
		while ! grep -q '^State:.*T' "/proc/$pid/status" && [ $turns -lt 1000 ]; do
			turns=$((turns + 1))
		done
		"$ours" "$pid" >"$tmp/ours" || { echo "$name: our side failed"; failed=1; }
		eu-stack -n 500 -p "$pid" 2>/dev/null | flatten >"$tmp/theirs"
		printf '%s: ' "$name"
		compare "$tmp/theirs" "$tmp/ours" || failed=1
	fi
	exec 8>&- 9<&-
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	pid=
	rm -f "$tmp/out" "$tmp/in"
}

look shell sh -c 'echo READY; read -r x'
look python python3 -c '
import sys, threading
gone = threading.Event()
def deep(n):
    return deep(n - 1) + 1 if n else (started.release(), gone.wait())[1]
started = threading.Semaphore(0)
for n in (1, 5, 30):
    threading.Thread(target=deep, args=(n,), daemon=True).start()
    started.acquire()
print("READY", flush=True)
sorted([2, 1], key=lambda x: x == 1 and sys.stdin.read())
'
look node node -e 'console.log("READY"); process.stdin.resume()'
# shellcheck disable=SC2016 # perl's variables
look perl perl -e '$| = 1; print "READY\n"; my @a = sort { <STDIN>; $a <=> $b } 2, 1;'
cat >"$tmp/Rest.java" <<'JAVA'
class Rest {
	public static void main(String[] args) throws Exception {
		System.out.println("READY");
		System.in.read();
	}
}
JAVA
look java java -Xint -XX:-UsePerfData "$tmp/Rest.java"

[ "$tried" -gt 0 ] || { echo "SKIP: no program to look at"; exit 77; }
exit "$failed"
