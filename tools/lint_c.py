# SPDX-License-Identifier: Apache-2.0
"""lint_c.py: what the linters share: find the C files, tell code, comments and strings apart."""
import os
import re
import sys

TOKEN = re.compile(r'''
    (?P<comment> /\*.*?\*/ | //[^\n]* )
  | (?P<string> "(?:\\.|[^"\\\n])*" )
  | (?P<char> '(?:\\.|[^'\\\n])*' )
''', re.X | re.S)


def sources(root, *folders, suffixes=('.c', '.h', '.S')):
    """Paths, relative to root, of the source files in the folders, sorted."""
    found = []
    for folder in folders:
        for where, _, names in os.walk(os.path.join(root, folder)):
            found += [os.path.relpath(os.path.join(where, n), root)
                      for n in names if n.endswith(suffixes)]
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding='utf-8', errors='replace') as f:
        return f.read()


def blank(text, keep_strings=False):
    """The text with comments (and what is in strings) blanked; every line keeps its place."""
    def spaces(match):
        s = match.group(0)
        if match.lastgroup != 'comment':
            return s if keep_strings else s[0] + re.sub(r'[^\n]', ' ', s[1:-1]) + s[-1]
        return re.sub(r'[^\n]', ' ', s)
    return TOKEN.sub(spaces, text)


def line_of(text, at):
    return text.count('\n', 0, at) + 1


def call_arguments(text, at):
    """The text between the bracket at `at` and its partner. Strings are respected."""
    depth, i = 0, at
    while i < len(text):
        token = TOKEN.match(text, i)
        if token:
            i = token.end()
            continue
        if text[i] == '(':
            depth += 1
        elif text[i] == ')':
            depth -= 1
            if not depth:
                return text[at + 1:i]
        i += 1
    return text[at + 1:]


class Report:
    """Collects findings; its end is the exit status."""

    def __init__(self, name):
        self.name, self.count, self.seen = name, 0, 0

    def say(self, path, line, what):
        print(f'{path}:{line}: {what}')
        self.count += 1

    def finish(self):
        # A gate that looked at nothing must not pass.
        if not self.seen:
            sys.exit(f'{self.name}: found no source file to look at')
        if self.count:
            sys.exit(f'{self.name}: {self.count} found in {self.seen} files')
        print(f'{self.name}: {self.seen} files, nothing found')


def root_of_tree(argv, usage):
    if len(argv) > 2 or (len(argv) == 2 and argv[1].startswith('-')):
        sys.exit(usage)
    if len(argv) == 2:
        return argv[1]
    return os.path.dirname(os.path.dirname(os.path.abspath(argv[0])))
