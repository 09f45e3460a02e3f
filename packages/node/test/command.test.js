/** Here the program has loaded no SQLite at all; it writes by a sqlite3 shell that it keeps open. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { suite } from './suite.js';

suite('command', (path) => {
  const argv = ['-bail', '-cmd', '.timeout 10000', path];
  const program = spawn('sqlite3', argv, { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface(program.stdout);
  return {
    async exec(sql) {
      program.stdin.write(`${sql};\nSELECT 'done';\n`);
      await once(lines, 'line');
    },
    all: (sql) => JSON.parse(execFileSync('sqlite3', ['-json', '-cmd', '.timeout 10000', path, sql])),
    close: () => program.stdin.end(),
  };
});
