#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stacks.py: a Python whose threads wait deep inside of various functions written in C, so
that there are some ordinary stacks to unwind. Prints READY; ends with its stdin.
"""
import functools
import json
import os
import re
import sys
import threading

# Each calls what it is given.
WAYS = [
    lambda f: sorted([0], key=f),
    lambda f: re.sub('.', f, '-'),
    lambda f: json.loads('{}', object_hook=f),
    lambda f: functools.reduce(f, [0, 0]),
    lambda f: list(map(f, [0])),
    lambda f: max([0, 0], key=f),
    lambda f: str(type('Odd', (), {'__str__': f})()),
    lambda f: {type('Odd', (), {'__hash__': f})()},
    lambda f: next(iter(f, None)),
    lambda f: eval('f()', {'f': f}),
]
DEPTH = 1

arrived, never = threading.Semaphore(0), threading.Lock()


def nest(ways):
    if ways:
        ways[0](lambda *_: nest(ways[1:]))
    arrived.release()
    never.acquire()


never.acquire()
for i in range(len(WAYS)):
    ways = (WAYS[i:] + WAYS[:i])[:DEPTH]
    threading.Thread(target=nest, args=(ways,), daemon=True).start()
for _ in WAYS:
    arrived.acquire()
print('READY', flush=True)
sys.stdin.read()
os._exit(0)
