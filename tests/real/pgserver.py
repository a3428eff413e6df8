# SPDX-License-Identifier: Apache-2.0
"""pgserver.py: a PostgreSQL server that ends with its test, and sessions with it."""
import glob
import os
import subprocess

import real


class Session:
    """A connection by psql, whose every answer is read."""

    def __init__(self, command):
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, bufsize=1,
                                      preexec_fn=real.die_with_parent)

    def __call__(self, query):
        self.child.stdin.write(f'{query};\n\\echo DONE\n')
        lines = []
        for line in self.child.stdout:
            if line == 'DONE\n':
                return lines
            if 'ERROR' in line or 'FATAL' in line or 'WARNING' in line:
                raise real.Failed(f'psql said {line} to {query[:80]}')
            lines.append(line.rstrip('\n'))
        raise real.Failed(f'psql ended in {query[:80]}: {lines}')

    def number(self, query):
        return int(self(query)[0])

    def close(self):
        self.child.stdin.close()
        self.child.wait(real.patience())


class Server:
    def __init__(self, test):
        self.test = test
        self.data = os.path.join(test.work, 'data')
        self.user = []
        if os.geteuid() == 0:
            # It refuses to run as root.
            setpriv = real.need('setpriv')
            if subprocess.run(['id', 'postgres'], capture_output=True).returncode:
                raise real.Skip('no user postgres')
            self.user = [setpriv, '--reuid=postgres', '--regid=postgres', '--init-groups',
                         '--pdeathsig=KILL']
        places = sorted(glob.glob('/usr/lib/postgresql/*/bin'))[-1:]
        self.find = lambda program: real.need(program, *places)
        self.start()

    def start(self):
        test = self.test
        os.mkdir(self.data, 0o700)
        if self.user:
            subprocess.run(['chown', 'postgres', self.data], check=True)
        made = subprocess.run([*self.user, self.find('initdb'), '-D', self.data, '-N', '-A',
                               'trust', '-U', 'postgres', '--locale=C', '-E', 'UTF8'],
                              cwd='/', text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if made.returncode:
            raise real.Failed(f'initdb failed: {made.stdout}')
        self.child = test.start(
            [*self.user, self.find('postgres'), '-D', self.data, '-k', self.data, '-c',
             'listen_addresses=', '-c', 'shared_buffers=16MB', '-c', 'fsync=off'], cwd='/')
        test.ready(self.child, 'postgres listens', lambda: subprocess.run(
            [self.find('pg_isready'), '-h', self.data, '-U', 'postgres', '-q']).returncode == 0)

    def client(self, program, *args):
        return [self.find(program), *args, '-h', self.data, '-U', 'postgres']

    def session(self):
        return Session([*self.client('psql', '-X', '-q', '-A', '-t'), 'postgres'])
