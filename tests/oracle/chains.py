# SPDX-License-Identifier: Apache-2.0
"""chains.py: make up a C program with known chains of calls (chains.h): functions whose frames
are of many shapes, each of which calls one further on, in many ways, up to malloc(). The same
seed gives the same program."""
import random

HEAD = '''/* Made by chains.py. */
#define _GNU_SOURCE
#include <alloca.h>
#include <link.h>
#include <search.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "chains.h"

#ifdef __clang__
#define noinline __attribute__((noinline))
#else
#define noinline __attribute__((noinline, noclone))
#endif

typedef float v4 __attribute__((vector_size(16)));
struct pair { int a, b; };
struct big { long v[6]; };
static jmp_buf home;
static long pending;
'''

# C type, an argument of it made of acc, what it adds to acc.
TYPES = (
    ('int', '(int)acc', '{}'),
    ('long', 'acc * 3', '{}'),
    ('double', '(double)acc', '(long){}'),
    ('float', '(float)acc', '(long){}'),
    ('const char *', '"text" + (acc & 3)', '{}[0]'),
    ('struct pair', '(struct pair){{ (int)acc, 2 }}', '{0}.a + {0}.b'),
    ('struct big', '(struct big){{ {{ acc }} }}', '{0}.v[0] + {0}.v[5]'),
    ('__int128', '(__int128)acc', '(long){}'),
    ('v4', '(v4){{ (float)acc, 1 }}', '(long){}[1]'),
)

LEAVES = (
    'DIRECTLY(free(malloc(24)))',
    'DIRECTLY(free(malloc((size_t)(acc & 255) + 1)))',
    'BY_LIBRARY(free(strdup("a text")))',
    'BY_LIBRARY({ char *text; if (asprintf(&text, "%ld %.3f", acc, 0.5) > 0) free(text); })',
    'BY_LIBRARY({ FILE *file = fopen("/dev/null", "r"); if (file) fclose(file); })',
    'BY_LIBRARY({ char *text; size_t len; FILE *file = open_memstream(&text, &len);\n'
    '\t\tif (file) { fputs("words", file); fclose(file); } })',
    'BY_LIBRARY({ void *root = NULL; tsearch("key", &root, (int (*)(const void *, '
    'const void *))strcmp); })',
    'BY_LIBRARY({ static long many[4000]; qsort(many, 4000, sizeof(many[0]), equal); })',
)


class Function:
    def __init__(self, rng, number):
        self.rng, self.number = rng, number
        self.params = [rng.choice(TYPES) for _ in range(rng.choice((0, 1, 1, 2, 3, 6, 9, 14)))]
        self.kind = 'plain'

    @property
    def name(self):
        return f'f{self.number}'

    def prototype(self):
        if self.kind == 'variadic':
            return f'noinline long {self.name}(long acc, int n, ...)'
        params = ''.join(f', {t[0]}{"" if t[0].endswith("*") else " "}p{i}'
                         for i, t in enumerate(self.params))
        attribute = {'realign': '__attribute__((force_align_arg_pointer)) ',
                     'cold': '__attribute__((cold)) '}.get(self.kind, '')
        return f'{attribute}noinline long {self.name}(long acc, int n{params})'

    def call(self, n='n'):
        if self.kind == 'variadic':
            count = self.rng.choice((0, 3, 12))
            return (f'{self.name}(acc, {n}' + ''.join(
                self.rng.choice((', (int)acc', ', 1.5', ', acc')) for _ in range(count)) + ')')
        args = ''.join(', ' + t[1].replace('{{', '{').replace('}}', '}') for t in self.params)
        return f'{self.name}(acc, {n}{args})'


def shape(rng, lines, after):
    """Locals that make a frame of some shape, and their use behind the call."""
    if rng.random() < .4:
        size = rng.choice((8, 24, 100, 500, 3000, 9000, 70000))
        lines.append(f'volatile char room[{size}];')
        lines.append(f'room[acc & {min(size, 4096) // 8 - 1 if size > 8 else 0}] = 1;')
        after.append('acc += room[0];')
    if rng.random() < .2:
        lines.append(f'_Alignas({rng.choice((32, 64, 128))}) volatile char aligned[256];')
        lines.append('aligned[acc & 255] = 2;')
        after.append('acc += aligned[3];')
    if rng.random() < .2:
        lines.append('volatile char *more = alloca((size_t)(acc & 1023) + 16);')
        lines.append('more[1] = 3;')
        after.append('acc += more[1];')
    if rng.random() < .15:
        lines.append('volatile long variable[(acc & 63) + 2];')
        lines.append('variable[1] = 4;')
        after.append('acc += variable[1];')
    for i in range(rng.choice((0, 0, 1, 2, 5, 9, 14))):
        lines.append(f'long a{i} = acc * {rng.randrange(3, 99)} + {i};')
        after.append(f'acc ^= a{i};')
    for i in range(rng.choice((0, 0, 0, 1, 4))):
        lines.append(f'double d{i} = (double)acc / {rng.randrange(3, 99)};')
        after.append(f'acc += (long)d{i};')


def callback(rng, number, callee):
    """A function that a library calls, which calls on; and the way there."""
    how = rng.choice(('qsort', 'bsearch', 'phdrs', 'signal', 'tfind'))
    # The headers have a bsearch() to be inlined.
    note = 'THROUGH | PERHAPS' if how == 'bsearch' else 'THROUGH'
    body = f'''	unsigned long mark = chains.n;
	long acc = pending;
	int n = 0;

	NOTE({note});
	if (chains_armed_once) {{
		chains_armed_once = 0;
		acc += {callee.call()};
	}}
	chains_sink += acc;
	chains.n = mark;
'''
    if how == 'phdrs':
        head = f'static noinline int back{number}(struct dl_phdr_info *info, size_t size, void *arg)'
        return f'{head}\n{{\n{body}\treturn 1;\n}}\n', f'dl_iterate_phdr(back{number}, NULL);'
    if how == 'signal':
        head = f'static noinline void back{number}(int sig)'
        return f'{head}\n{{\n{body}}}\n', (
            f'{{ struct sigaction action = {{ .sa_handler = back{number}, .sa_flags = SA_NODEFER }};\n'
            f'\t\tsigaction(SIGUSR1, &action, NULL); raise(SIGUSR1); }}')
    head = f'static noinline int back{number}(const void *a, const void *b)'
    ways = {'qsort': f'{{ int v[3] = {{ 3, 1, 2 }}; qsort(v, 3, sizeof(v[0]), back{number}); }}',
            'bsearch': f'{{ int v[3] = {{ 1, 2, 3 }}; bsearch(v, v, 3, sizeof(v[0]), back{number}); }}',
            'tfind': f'{{ struct {{ const void *key; void *l, *r; }} node = {{ "" }}; '
                     f'void *root = &node; tfind("", &root, back{number}); }}'}
    return f'{head}\n{{\n{body}\treturn 0;\n}}\n', ways[how]


def define(rng, function, functions):
    """The function's text."""
    later = functions[function.number + 1:]
    lines, after, before = [], [], ''
    shape(rng, lines, after)
    callee = rng.choice(later[:8]) if later else None
    restore = True
    note = '0'
    if not callee:
        calls = [f'{rng.choice(LEAVES)};']
    elif function.kind == 'tail':
        lines, after, restore, note = [], [], False, 'MAYBE'
        calls = [f'return {callee.call()};']
    elif function.kind == 'callback':
        before, way = callback(rng, function.number, callee)
        calls = ['pending = acc;', 'chains_armed_once = 1;', way, 'acc += 1;']
    elif function.kind == 'pointer':
        calls = [f'__typeof__(&{callee.name}) volatile next = {callee.name};',
                 f'acc += {callee.call().replace(callee.name, "next", 1)};']
    elif function.kind == 'recursive':
        calls = [f'if (n > 0)\n\t\tacc += {function.call("n - 1")};\n\telse\n'
                 f'\t\tacc += {callee.call("3")};']
    elif function.kind == 'unlikely':
        calls = [f'if (__builtin_expect(chains_one, 0))\n\t\tacc += {callee.call()};']
    elif function.kind == 'loop':
        calls = [f'for (long i = 0; i < 4; i++)\n\t\tif (i == (acc & 3))\n'
                 f'\t\t\tacc += {callee.call()}, chains.n = mark + 1;']
    elif function.kind == 'switch':
        choice = [rng.choice(later[:8]).call() for _ in range(3)]
        calls = ['switch (acc % 3) {\n' + ''.join(
            f'\tcase {i}: acc += {c};\n\t\tbreak;\n' for i, c in enumerate(choice)) +
            f'\tdefault: acc -= {choice[0]};\n\t}}']
    else:
        calls = [f'acc += {callee.call()};']
    if restore:
        calls.append('chains.n = mark + 1;')
    if callee and restore and rng.random() < .25:
        calls.append(f'{rng.choice(LEAVES)};')
    text = [before, function.prototype(), '{']
    if restore:
        text.append('\tunsigned long mark = chains.n;')
    if function.kind == 'variadic':
        text += ['\tva_list list;', '\tva_start(list, n);', '\tva_end(list);']
    text.append(f'\tNOTE({note});')
    if function.kind != 'variadic':
        for i, t in enumerate(function.params):
            text.append(f'\tacc += {t[2].format(f"p{i}")};')
    text += [f'\t{line}' for line in lines + calls + after]
    if restore:
        text += ['\tchains.n = mark;', '\treturn acc;']
    return '\n'.join(text + ['}', ''])


NEVER = '''
/* Its call is the last instruction. */
static noinline __attribute__((noreturn)) void never(int n)
{
	NOTE(0);
	if (n > 0)
		never(n - 1);
	DIRECTLY(free(malloc(8)));
	longjmp(home, 1);
}

static noinline void returns(void)
{
	unsigned long mark = chains.n;

	NOTE(0);
	if (setjmp(home) == 0)
		never(5);
	chains.n = mark;
}
'''


def program(seed, count=60, roots=10):
    rng = random.Random(seed)
    functions = [Function(rng, i) for i in range(count)]
    kinds = ('plain', 'plain', 'tail', 'tail', 'callback', 'callback', 'pointer', 'recursive',
             'unlikely', 'loop', 'switch', 'variadic', 'realign', 'cold')
    for function in functions:
        function.kind = rng.choice(kinds)
    text = [HEAD, 'static volatile int chains_armed_once;\n'
            'static int equal(const void *a, const void *b) { return 0; }\n']
    text += [f.prototype() + ';' for f in functions]
    # Callees first in the file now and then, so that compilers know what they do to registers.
    order = functions[::-1] if rng.random() < .5 else functions
    text += [define(rng, f, functions) for f in order]
    text.append(NEVER)
    text.append('int main(void)\n{\n\tlong acc = chains_one;\n\tint n = 2;\n\n\tNOTE(0);')
    for _ in range(roots):
        text.append(f'\tacc += {rng.choice(functions[:count // 2]).call()};\n\tchains.n = 1;')
    text.append('\treturns();\n#ifdef WITH_CXX\n\tchains_cxx();\n#endif\n'
                '\tchains_sink += acc;\n\treturn 0;\n}\n')
    return '\n'.join(text)


if __name__ == '__main__':
    import sys
    print(program(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
