# SPDX-License-Identifier: Apache-2.0
"""storm.py: heaptaps that come and go all the time, by each mode and loader in turn.

    storm = storm.Storm(test)
    while load.poll() is None:
        storm.attach(random.choice(storm.family(load.pid)), mortal=True)
"""
import itertools
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../real'))
import real

KINDS = [(*mode, f'--loader={loader}') for mode in real.MODES for loader in ('map', 'dlopen')]
VANISHED, NOT_PERMITTED, UNSUPPORTED = 3, 4, 5
# One target's storm, or one round of kills.
SECONDS = 15


def family(pid):
    """@pid and all its descendants that live."""
    found = [pid]
    for parent in found:
        try:
            for tid in os.listdir(f'/proc/{parent}/task'):
                found += map(int, real.read(f'/proc/{parent}/task/{tid}/children').split())
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def heaptap(*args):
    """A command of heaptap's that comes to its end: (status, what it said)."""
    try:
        done = subprocess.run([real.HEAPTAP, *args], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              timeout=real.patience(), preexec_fn=real.die_with_parent)
    except subprocess.TimeoutExpired as error:
        raise real.Failed(f'heaptap {" ".join(args)} hangs') from error
    return done.returncode, done.stderr


def is_refusal(status, talk):
    return status in (NOT_PERMITTED, UNSUPPORTED) or status == 1 and 'try again' in talk


class Storm:
    def __init__(self, test):
        self.test = test
        self.kinds = itertools.cycle(KINDS)
        self.text = os.path.join(test.work, 'tap.txt')
        self.taps = 0

    def attach(self, pid, mortal=False):
        """One attach; a @mortal target may end at any time by itself."""
        args = ('attach', *next(self.kinds), '-d', '0.2', '-o', self.text, str(pid))
        status, talk = heaptap(*args)
        if is_refusal(status, talk):
            print(f'refused: {" ".join(args)}: {talk}', end='')
            real.tally('refused')
            return
        if mortal and status == VANISHED:
            return
        if status:
            raise real.Failed(f'heaptap {" ".join(args)}: status {status}\n{talk}')
        self.test.count(real.Report(real.read(self.text), '', args))
        self.taps += 1
        try:
            self._let_go(pid, talk)
        except (FileNotFoundError, ProcessLookupError):
            if not mortal:
                raise real.Failed(f'{pid} did not survive heaptap {" ".join(args)}') from None

    def rage(self, pids, goes_on, mortal=False, pause=0):
        """Attach to each of @pids() in turn while @goes_on(), with a @pause in between."""
        turn = 0
        while goes_on():
            now = pids()
            self.attach(now[turn % len(now)], mortal)
            turn += 1
            time.sleep(pause)

    def check(self):
        """After one that lasted."""
        if not self.taps:
            raise real.Failed('nothing was tapped')

    @staticmethod
    def _let_go(pid, talk):
        left = real.leftovers(pid)
        if left and 'stays mapped' not in talk:
            raise real.Failed(f'left in {pid} without a word: {left}')
        for tid, task in real.tasks(pid).items():
            if task['TracerPid'] != '0':
                raise real.Failed(f'thread {tid} of {pid} is traced by {task["TracerPid"]}')


def until_over(seconds=SECONDS):
    """For Storm.rage()."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


def baseline(text):
    """What was compared with a run without heaptap, for the table."""
    print(f'baseline: {text}')
