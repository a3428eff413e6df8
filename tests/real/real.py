# SPDX-License-Identifier: Apache-2.0
"""real.py: what the tests on real programs share.

A test starts a program, puts it under load, attaches to it over and over, and looks from
outside whether that left anything behind:

    with real.Test('redis') as test:
        server = test.start(['redis-server', ...])
        process = test.watch(server.pid)
        with test.load(['redis-benchmark', ...]):
            for round in test.rounds():
                with process.tap(*round.args) as tap:
                    ...
                tap.report.check('live', truth, ...)

Nothing here sleeps to wait, but for polling until something is so, with a deadline.
"""
import ctypes
import hashlib
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

BUILDDIR = os.environ.get('HT_BUILDDIR', os.getcwd())
HEAPTAP = os.environ.get('HEAPTAP') or os.path.join(BUILDDIR, 'heaptap')
# The kinds of recording that a test goes through, again and again.
MODES = (('-i', '64K'), ('-i', '4K'), ('-i', '0'), ('-i', '512K'))
# What a program has to do, in CPU time, while it is tapped at work.
WORK_NS = 100_000_000
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Skip(Exception):
    pass


class Failed(Exception):
    pass


def need(program, *places):
    """Where @program is, or skip the test."""
    path = shutil.which(program, path=os.pathsep.join((*places, os.environ['PATH'])))
    if not path:
        raise Skip(f'no {program}')
    return path


def patience(seconds=60):
    """How long to wait for what comes within @seconds on a machine with nothing else to do,
    unless something hangs. Longer where several runnable threads share a CPU."""
    return seconds * max(1, os.getloadavg()[0] / os.cpu_count())


def until(what, condition, seconds=60):
    """Wait until @condition() is true; its value."""
    deadline = patience(seconds)
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f'waited {deadline:.0f} s in vain until {what}')
        time.sleep(0.01)


def listens(path):
    """A server's socket is there a moment before it can be connected to. To try would be a
    client that the server sees: its flag SO_ACCEPTCON says so."""
    return any(flags == '00010000' and rest[-1] == path for _, _, _, flags, *rest in
               map(str.split, read('/proc/net/unix').splitlines()))


def tally(what, stops=0, stop_ms=0.0):
    """A line for the table of make soak (tests/lib/ht_tally.h)."""
    path = os.environ.get('HT_TALLY')
    if path:
        with open(path, 'a') as file:
            file.write(f'{what} {stops} {stop_ms * 1e6:.0f}\n')


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def read(path, mode='r'):
    with open(path, mode) as file:
        return file.read()


# ---- what a process looks like from outside ----

SIGNAL_FIELDS = ('SigBlk', 'SigIgn', 'SigCgt', 'Seccomp')


def tasks(pid):
    """{tid: {field: value}}; threads that end meanwhile are left out."""
    found = {}
    for tid in os.listdir(f'/proc/{pid}/task'):
        try:
            text = read(f'/proc/{pid}/task/{tid}/status')
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[int(tid)] = dict(line.split(':\t', 1) for line in text.splitlines()
                               if ':\t' in line)
    return found


def run_time(pid, tid):
    """How long a thread has run, as text; nothing where the kernel doesn't tell."""
    try:
        return read(f'/proc/{pid}/task/{tid}/schedstat').split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ''


def steady_tasks(pid):
    """tasks(), where each thread had the same signals twice in a row: it may block some for
    a moment. Two looks at one that waited for a CPU from the first to the second are one."""
    last, steady = {}, {}

    def look():
        now = tasks(pid)
        for tid in now.keys() - steady.keys():
            task, old = now[tid], last.get(tid)
            task['ran'] = run_time(pid, tid)
            if old and task['State'][0] == old['State'][0] == 'R' and \
                    task['ran'] == old['ran']:
                continue
            if old and all(task[field] == old[field] for field in SIGNAL_FIELDS):
                steady[tid] = task
            last[tid] = task
        return steady.keys() >= now.keys()
    until(f'the signals of {pid} are twice the same', look)
    return steady


def files(pid):
    """{fd: what it is}."""
    found = {}
    for fd in os.listdir(f'/proc/{pid}/fd'):
        try:
            found[int(fd)] = os.readlink(f'/proc/{pid}/fd/{fd}')
        except FileNotFoundError:
            pass
    return found


def maps(pid):
    """[(start, end, permissions, file offset, inode, path)]."""
    found = []
    for line in read(f'/proc/{pid}/maps').splitlines():
        part = line.split(None, 5)
        start, end = (int(x, 16) for x in part[0].split('-'))
        found.append((start, end, part[1], int(part[2], 16), int(part[4]),
                      part[5] if len(part) > 5 else ''))
    return found


def text_digests(pid):
    """A digest of each executable mapping of a file: a byte that stayed patched shows."""
    found = {}
    with open(f'/proc/{pid}/mem', 'rb', 0) as mem:
        for start, end, permissions, offset, inode, path in maps(pid):
            if 'x' not in permissions or 'w' in permissions or not inode or \
                    path.startswith('/memfd:'):
                continue
            mem.seek(start)
            digest = hashlib.sha1()
            while start < end:
                piece = mem.read(min(end - start, 1 << 20))
                if not piece:
                    raise ProcessLookupError(f'{pid} ended')
                digest.update(piece)
                start += len(piece)
            found[path, offset] = digest.hexdigest()
    return found


def changed_text(pid, path, offset):
    """Where that mapping differs from the file, for a message."""
    found = []
    for start, end, _, at, _, name in maps(pid):
        if (name, at) != (path, offset):
            continue
        with open(f'/proc/{pid}/mem', 'rb', 0) as mem, open(path, 'rb') as file:
            mem.seek(start)
            file.seek(offset)
            here, there = mem.read(end - start), file.read(end - start)
        for i in range(0, min(len(here), len(there)), 8):
            if here[i:i + 8] != there[i:i + 8]:
                found.append(f'{start + i:#x}: {here[i:i + 8].hex()} was '
                             f'{there[i:i + 8].hex()}')
    return ', '.join(found[:6]) or 'nothing differs from the file'


def leftovers(pid):
    return [m for m in maps(pid) if 'heaptap:' in m[5]]


# ---- reports ----

class Report:
    """The figures of a text report and of collapsed stacks."""

    def __init__(self, text, folded, args):
        self.text, self.args = text, args
        # Also one that lost something, and says so: its figures look the same.
        self.exact = re.search('every allocation recorded|so not exact', text) is not None
        self.complete = re.search(r'^complete\b', text, re.M) is not None
        stop = re.search(r'stopped (once|twice|[\d,]+ times), at most ([\d.]+) (.?s) at', text)
        if not stop:
            raise Failed(f'no line about stops in the report:\n{text}')
        self.stops = {'once': 1, 'twice': 2}.get(stop[1]) or \
            int(stop[1].split()[0].replace(',', ''))
        self.stop_ms = float(stop[2]) * {'ns': 1e-6, 'µs': 1e-3, 'us': 1e-3, 'ms': 1,
                                         's': 1000, ' s': 1000}[stop[3]]
        self.samples = self._samples()
        self.folded = []
        for line in folded.splitlines():
            stack, _, value = line.rpartition(' ')
            self.folded.append((stack.split(';'), int(value)))

    def _samples(self):
        found = re.search(r'([\d,]+) samples?\b', self.text)
        return int(found[1].replace(',', '')) if found else None

    def row(self, name):
        """(bytes, 95 % bar) of a row of the summary; the bar is None if it's too few
        samples for one: then it is (upper bound, None)."""
        found = re.search(rf'^  {name} +(.*)$', self.text, re.M)
        if not found:
            raise Failed(f'no row "{name}" in the report:\n{self.text}')
        rest = found[1]
        if self.exact:
            return int(re.search(r' ([\d,]+) bytes', rest)[1].replace(',', '')), 0
        value = re.match(r'([\d.]+) ([KMG]i)?B ', rest)
        bar = re.search(r'±([\d.]+) %', rest)
        few = re.search(r'at most ([\d.]+) ([KMG]i)?B', rest)
        if few:
            return human_bytes(*few.groups()), None
        if not value or not bar:
            raise Failed(f'can\'t read "{found[0]}"')
        value = human_bytes(*value.groups())
        return value, value * float(bar[1]) / 100

    def live_at(self, caller, *callees):
        """Live bytes of the stacks in which @caller calls one of @callees; without those,
        of all in which it is."""
        total = 0
        for stack, value in self.folded:
            names = [plain(frame) for frame in stack]
            if any(name == caller and (not callees or after in callees)
                   for name, after in zip(names, names[1:] + [''])):
                total += value
        return total

    def live_where(self, is_meant):
        """Live bytes of the stacks with a frame for which is_meant(frame)."""
        return sum(value for stack, value in self.folded if any(map(is_meant, stack)))

    def top(self):
        """The function that the first live call site names."""
        found = re.search(r'^Live by call site.*\n  (\S.*?)  ', self.text, re.M)
        return plain(found[1]) if found else None


def plain(frame):
    """A function's name without parameters, clone suffixes and unnamed namespaces."""
    frame = frame.replace('(anonymous namespace)::', '')
    return re.sub(r'\(.*|\.(constprop|isra|part|lto_priv|cold)\b.*', '', frame)


def human_bytes(number, unit):
    return float(number) * {None: 1, 'Ki': 1 << 10, 'Mi': 1 << 20, 'Gi': 1 << 30}[unit]


class Estimates:
    """Reported figures against the truth. A sampled one may lie outside its 95 % bar; half
    of them, or one by three bars, is no accident (less than one in 10^5 for ten figures).
    What a report says of itself that it isn't complete is not compared."""

    def __init__(self):
        self.inside = self.outside = self.exact = self.incomplete = 0
        self.worst_exact = self.worst = 0.0

    def check(self, report, what, row, truth, slack=0.0):
        """@row: (bytes, bar) as Report.row() gives it. @slack: by which share the program's
        own count may differ from what it asked its allocator for."""
        value, bar = row
        off = max(0.0, abs(value - truth) - slack * truth)
        story = f'{what}: heaptap says {value:.0f} bytes, the truth is {truth:.0f}'
        if not report.complete:
            self.incomplete += 1
        elif bar is None:
            # An upper bound, and right in 19 of 20 cases.
            if truth * (1 - slack) > 2 * value:
                raise Failed(story.replace('says', 'says at most'))
        elif bar == 0:
            self.exact += 1
            self.worst_exact = max(self.worst_exact, abs(value - truth) / max(truth, 1))
            if off > 0:
                raise Failed(story + ', and it claims to be exact')
        else:
            self.worst = max(self.worst, off / bar)
            if off > 3 * bar:
                raise Failed(f'{story}, and the error bar is {bar:.0f}')
            if off > bar:
                self.outside += 1
            else:
                self.inside += 1

    def settle(self, must):
        """@must: the program counts, so that there is something to compare with."""
        if must and not (self.inside + self.outside and self.exact):
            raise Failed(f'only {self.inside + self.outside} sampled and {self.exact} exact '
                         'figures were compared')
        if self.outside > self.inside:
            raise Failed(f'{self.outside} of {self.outside + self.inside} figures lie outside '
                         'their error bars')
        if self.incomplete > self.inside + self.exact:
            raise Failed(f'{self.incomplete} figures are from incomplete reports, only '
                         f'{self.inside + self.exact} are not')

    def __str__(self):
        return (f'{self.inside} of {self.inside + self.outside} sampled figures inside the '
                f'95 % bar, worst {self.worst:.2f} bars; {self.exact} exact ones, off by '
                f'{100 * self.worst_exact:.3f} % at most')


# ---- one process under observation ----

class Tap:
    """One heaptap at work. As a context manager it records while the body runs."""

    def __init__(self, process, args, command):
        self.process, self.args = process, args
        self.report = None
        work = process.test.work
        self.text, self.folded = (os.path.join(work, 'tap.' + x) for x in ('txt', 'folded'))
        for path in (self.text, self.folded):
            if os.path.exists(path):
                os.unlink(path)
        self.child = subprocess.Popen(
            [*command, HEAPTAP, 'attach', *args, '-o', self.text, '-o', self.folded,
             str(process.pid)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=die_with_parent, text=True)
        self.talk = ''
        self.guard = threading.Timer(patience(), self.child.kill)
        self.guard.start()

    def _hear(self, word):
        """Its messages up to the one with @word, or its end."""
        for line in self.child.stderr:
            self.talk += line
            if word in line:
                return True
        return False

    def __enter__(self):
        if not self._hear('tapping '):
            self.finish(None)
            raise Failed(f'{self._name()} ended before it tapped:\n{self.talk}')
        return self

    def __exit__(self, kind, *_):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGINT)
        self.finish(kind)

    def _name(self):
        return f'heaptap attach {" ".join(self.args)} {self.process.pid}'

    def finish(self, kind):
        out, rest = self.child.communicate()
        self.talk += rest
        self.guard.cancel()
        self.status = self.child.returncode
        if kind:
            return
        if self.status or out:
            raise Failed(f'{self._name()}: status {self.status}, {out!r}\n{self.talk}')
        self.report = Report(read(self.text), read(self.folded), self.args)
        self.process.test.count(self.report)
        try:
            self.process.looks_untouched(self._name(), self.talk)
        except (FileNotFoundError, ProcessLookupError) as error:
            raise Failed(f'{self.process.name} did not survive {self._name()}: {error}') from error


class Process:
    """A process that is attached to, and must not show it."""

    def __init__(self, test, pid):
        self.test, self.pid = test, pid
        self.name = f'{pid} ({read(f"/proc/{pid}/cmdline")[:60]})'
        self.before = steady_tasks(pid)
        self.digests = text_digests(pid)
        self.files = files(pid)
        self.stopped = False    # by job control

    def tap(self, *args, command=()):
        return Tap(self, args, command)

    def attach(self, *args):
        """One attach with a duration of its own."""
        self.tap(*args).finish(None)

    def attach_at_work(self, *args):
        """One attach that lasts until the process has worked under it."""
        with self.tap(*args) as tap:
            done = self._cpu_ns() + WORK_NS
            until(f'{self.name} has something to do', lambda: self._cpu_ns() > done)
        return tap

    def _cpu_ns(self):
        # The clock that clock_getcpuclockid(3) makes of a process id.
        return time.clock_gettime_ns(~self.pid << 3 | 2)

    def looks_untouched(self, by, talk):
        """After each detach or cure; @talk is what heaptap said."""
        left = leftovers(self.pid)
        said = 'stays mapped' in talk
        if left:
            self.test.left += 1
            if not said:
                raise Failed('left behind without a word: '
                             + ', '.join(f'{m[5]} {m[2]}' for m in left))
        elif said:
            raise Failed('heaptap says that something stayed mapped, but nothing is there')
        now = text_digests(self.pid)
        for what, digest in self.digests.items():
            if now.get(what, digest) != digest:
                raise Failed(f'the code of {what[0]} in {self.name} was changed by {by} '
                             f'and not restored: {changed_text(self.pid, *what)}')
        self.digests = now
        # It opens such files itself, too, for a moment.
        until('no file descriptor is open that was left', self._no_files_left, 5)
        for tid, task in tasks(self.pid).items():
            if task['TracerPid'] != '0' or task['State'][0] in ('t' if self.stopped else 'tT'):
                raise Failed(f'thread {tid} after the detach: TracerPid {task["TracerPid"]}, '
                             f'State {task["State"]}')
        if self.stopped:
            until('it is stopped again', self._is_stopped, 5)
        # Threads may block signals for a moment by themselves.
        until('the signal masks and dispositions are those from before', self._signals_same, 5)

    def _no_files_left(self):
        return not any(fd not in self.files and re.search('heaptap:|memfd|/proc/', what)
                       for fd, what in files(self.pid).items())

    def _is_stopped(self):
        return all(task['State'][0] == 'T' for task in tasks(self.pid).values())

    def _signals_same(self):
        now = tasks(self.pid)
        return all(now[tid][field] == old[field] for tid, old in self.before.items()
                   if tid in now for field in SIGNAL_FIELDS)

    def same_files(self):
        """The load is over: all that is open was open before."""
        until(f'the open files are again {self.files}', lambda: files(self.pid) == self.files)


# ---- one test ----

class Load:
    """Runs @command again and again, each time to its end, until told to stop; none may
    fail. @look(stdout) tells what is wrong with its output, if anything."""

    def __init__(self, command, look=None, **options):
        self.command, self.look, self.options = command, look, options
        self.runs, self.wrong = 0, None
        self.over = False
        self.started = threading.Event()
        self.thread = threading.Thread(target=self._work)

    def _work(self):
        while not self.over and not self.wrong:
            child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     preexec_fn=die_with_parent, text=True,
                                     errors='replace', **self.options)
            self.started.set()
            try:
                out, _ = child.communicate(timeout=patience())
            except subprocess.TimeoutExpired:
                child.kill()
                out, _ = child.communicate()
                self.wrong = f'hangs: {out}'
                break
            self.runs += 1
            why = self.look(out) if self.look else None
            if child.returncode or why:
                self.wrong = f'{why or "failed"}, status {child.returncode}: {out[-2000:]}'

    def __enter__(self):
        self.thread.start()
        self.started.wait()
        return self

    def check(self):
        if self.wrong:
            raise Failed(f'{self.command[0]} {self.wrong}')

    def __exit__(self, kind, *_):
        self.over = True
        self.thread.join()
        if not kind:
            self.check()


class Client(threading.Thread):
    """Calls @step() again and again; an exception is an error that the program's client
    saw."""

    def __init__(self, step):
        super().__init__()
        self.step = step
        self.steps, self.wrong, self.over = 0, None, False

    def run(self):
        while not self.over and not self.wrong:
            try:
                self.step()
                self.steps += 1
            except Exception as error:      # whatever it is, it's what we look for
                self.wrong = error

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *_):
        self.over = True
        self.join()
        if not kind and self.wrong:
            raise Failed(f'the client saw {type(self.wrong).__name__}: {self.wrong}')


class Target:
    """A program of ours: READY first, then an answer to each line."""

    def __init__(self, test, command):
        if not os.access(command[0], os.X_OK):
            raise Skip(f'no {command[0]}; make check builds it')
        self.child = test.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                text=True, bufsize=1)
        self.pid = self.child.pid
        if self.child.stdout.readline() != 'READY\n':
            raise Failed(f'{command[0]} did not start')

    def ask(self, *words):
        self.child.stdin.write(' '.join(map(str, words)) + '\n')
        return self.child.stdout.readline().split()

    def check(self):
        answer = ' '.join(self.ask('check'))
        if not answer.startswith('ok '):
            raise Failed(f'the program says "{answer}", status {self.child.poll()}')

    def end(self):
        self.child.stdin.close()
        if self.child.wait(patience()):
            raise Failed(f'it ended with {self.child.returncode}')


class Test:
    def __init__(self, name, counts=True):
        self.name = name
        self.counts = counts    # the program tells what it holds
        self.children = []
        self.files = []             # outside of $work
        self.attaches = self.left = self.cured = 0
        self.stop_ms = 0.0
        self.incomplete = []
        self.estimates = Estimates()
        self.notes = []

    def __enter__(self):
        if not os.access(HEAPTAP, os.X_OK):
            print(f'no {HEAPTAP}; set HEAPTAP or HT_BUILDDIR')
            sys.exit(99)
        os.environ['LC_ALL'] = 'C.UTF-8'
        for name in ('HEAPTAP_DEBUG', 'HEAPTAP_FAULT'):
            os.environ.pop(name, None)
        self.work = tempfile.mkdtemp(prefix='ht-real-')
        os.chmod(self.work, 0o755)
        return self

    def start(self, command, **options):
        """A program that ends with the test. Its output goes to $work/log."""
        options.setdefault('stdin', subprocess.DEVNULL)
        log = open(os.path.join(self.work, 'log'), 'ab')
        child = subprocess.Popen(command, cwd=options.pop('cwd', self.work),
                                 stdout=options.pop('stdout', log), stderr=log,
                                 start_new_session=True, preexec_fn=die_with_parent,
                                 **options)
        log.close()
        self.children.append(child)
        return child

    def log(self):
        return read(os.path.join(self.work, 'log'))

    def ready(self, child, what, condition):
        """Wait until a program that was started serves."""
        def look():
            if child.poll() is not None:
                raise Failed(f'it ended with {child.returncode} instead of serving:\n'
                             f'{self.log()[-2000:]}')
            return condition()
        return until(what, look)

    def watch(self, pid):
        doctor = subprocess.run([HEAPTAP, 'doctor', str(pid)], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if doctor.returncode:
            raise Skip(doctor.stdout.splitlines()[0])
        # Forked by a process that was tapped then.
        if leftovers(pid):
            subprocess.run([HEAPTAP, 'cure', str(pid)], check=True, stderr=subprocess.PIPE)
            if leftovers(pid):
                raise Failed('cure left something: ' + repr(leftovers(pid)))
            self.cured += 1
        return Process(self, pid)

    def count(self, report):
        self.attaches += 1
        self.stop_ms = max(self.stop_ms, report.stop_ms)
        tally('tap', report.stops, report.stop_ms)
        if not report.complete:
            self.incomplete.append(f'{" ".join(report.args)}: {report.text.splitlines()[0]}')

    def rounds(self, n=20):
        """The modes in turn; a round is the options for one attach."""
        for i in range(n):
            yield MODES[i % len(MODES)]

    def load(self, command, look=None, **options):
        return Load(command, look, **options)

    def client(self, step):
        return Client(step)

    def check_live(self, report, truth, slack=0.0):
        """What the report says is live now."""
        self.estimates.check(report, f'live, {" ".join(report.args)}', report.row('live now'),
                             truth, slack)

    def check_exact(self, report, truth, caller, *callees, slack=0.0):
        """What is live of it where @caller calls one of @callees; not if it's sampled, there's
        no error bar for that."""
        if report.exact:
            self.estimates.check(report, f'by {caller}', (report.live_at(caller, *callees), 0),
                                 truth, slack)

    def check_blocks(self, report, n, size, caller, slack=0.0):
        """The same of @n blocks of @size, with the error bar that samples of them have."""
        interval = int(report.args[report.args.index('-i') + 1].rstrip('K')) * 1024
        missed = math.exp(-size / interval) if interval else 0
        bar = 1.96 * size * math.sqrt(n * missed / (1 - missed))
        self.estimates.check(report, f'by {caller}', (report.live_at(caller), bar), n * size,
                             slack)

    def check_top(self, report, *names):
        if report.top() not in names:
            raise Failed(f'the first call site of {" ".join(report.args)} is {report.top()}')

    def note(self, text):
        self.notes.append(text)

    def remove_later(self, path):
        """A file that a program of the test writes elsewhere."""
        self.files.append(path)

    def stop(self, child, sig=signal.SIGTERM):
        """End a program; its exit status."""
        child.send_signal(sig)
        try:
            return child.wait(patience())
        finally:
            self.children.remove(child)

    def _clean_up(self):
        for child in self.children:
            # Workers too, which don't always end with their master.
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()
        for path in self.files:
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
        shutil.rmtree(self.work, ignore_errors=True)

    def __exit__(self, kind, error, _):
        status = 0
        if kind is None:
            try:
                self.estimates.settle(self.counts)
            except Failed as failed:
                kind, error = Failed, failed
        if kind is Skip:
            print(f'SKIP: {error}')
            status = 77
        elif kind is Failed:
            print(f'FAIL: after {self.attaches} attaches: {error}')
            path = os.path.join(self.work, 'log')
            if os.path.exists(path):
                print(f'--- its output:\n{read(path)[-1500:]}')
            status = 1
        elif kind is not None:
            self._clean_up()
            return False
        self._clean_up()
        if status != 77:
            print(f'{self.name}: {self.attaches} attaches; {self.estimates}; '
                  f'longest stop {self.stop_ms:.1f} ms; {self.left} times code stayed mapped; '
                  f'{self.cured} children cured')
            for line in self.notes + self.incomplete:
                print(f'  {line}')
        sys.exit(status)
