# SPDX-License-Identifier: Apache-2.0
"""python_leak.py: a Python program that leaks what it's told to, and knows how much.

READY
leak N SIZE: "BYTES TRACED": bytes objects of SIZE bytes are kept; so much was asked for
    them, and so much tracemalloc counted at the same time, with its own tables.
check: "ok ROUNDS" if its workers found all as it should be, or "BAD what".
"""
import json
import os
import sys
import threading
import time
import tracemalloc

kept = []
rounds = [0, 0, 0]
wrong = []
ours, theirs = os.pipe()


def parse(i):
    data = {'id': i, 'name': 'x' * (i % 700), 'list': list(range(i % 300))}
    assert json.loads(json.dumps(data)) == data


def throw(i):
    try:
        raise ValueError('v' * (600 + i % 100))
    except ValueError as error:
        assert len(str(error)) == 600 + i % 100


def wait(_):
    before = time.monotonic()
    time.sleep(0.005)
    assert time.monotonic() - before >= 0.005
    os.write(theirs, b'y' * 5000)
    assert len(os.read(ours, 10000)) == 5000


def worker(slot, step):
    try:
        while True:
            step(rounds[slot])
            rounds[slot] += 1
    except Exception as error:
        wrong.append(f'{step.__name__}: {error!r}')


def counted():
    return tracemalloc.get_traced_memory()[0] + tracemalloc.get_tracemalloc_memory()


tracemalloc.start()
for slot, step in enumerate((parse, throw, wait)):
    threading.Thread(target=worker, args=(slot, step), daemon=True).start()
print('READY', flush=True)
for line in sys.stdin:
    command, *args = line.split()
    if command == 'leak':
        n, size = map(int, args)
        before = counted()
        new = [os.urandom(size) for _ in range(n)]
        kept.append(new)
        print(sum(sys.getsizeof(x) for x in new), counted() - before, flush=True)
    else:
        before = list(rounds)
        while any(a == b for a, b in zip(before, rounds)) and not wrong:
            time.sleep(0.001)
        print(f'BAD {wrong[0]}' if wrong else f'ok {sum(rounds)}', flush=True)
os._exit(0)
