/** What the tests share: folders that go away, the sqlite3 shell as another program, a hub. */
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { find } from '../lib/platform.js';

/** Of the package itself where it is installed with that of its platform, else of the environment. */
const absent = (what) => (find(what) ? null : `SYNQLITE_${what.toUpperCase()} is not set`);

/** Why tests cannot run here; null if they can. */
export const noExtension = absent('extension');
export const noCommand = absent('command');
export const skip = noExtension ?? noCommand ?? false;

export const command = find('command');

export function folder(t) {
  const path = mkdtempSync(join(tmpdir(), 'synqlite-node-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Runs SQL in another program, which waits 10 s for locks unless `first` says otherwise. */
export const shell = async (path, sql, first = '.timeout 10000') => {
  const argv = ['-bail', '-cmd', first, path, sql];
  const { stdout } = await promisify(execFile)('sqlite3', argv);
  return stdout.trim();
};

/** A hub on a store in `dir`, with a token for database `notes`, and a `reader` that may only read. */
export async function hub(t, dir, { listen = '127.0.0.1:0' } = {}) {
  const store = join(dir, 'hub');
  // Before the hub runs: it takes up to a second to notice a new one.
  const [token, reader] = ['write', 'read'].map((scope) => {
    const argv = ['token', 'create', '--json', '--store', store, '--database', 'notes', '--scope', scope];
    return JSON.parse(execFileSync(command, argv)).token;
  });
  const argv = ['serve', '--json', '--listen', listen, '--store', store];
  const server = spawn(command, argv, { stdio: ['ignore', 'pipe', 'ignore'] });
  const stop = async () => {
    if (server.exitCode !== null || server.signalCode !== null) return;
    const gone = once(server, 'exit');
    server.kill('SIGKILL');
    await gone;
  };
  t.after(stop);
  const [line] = await once(createInterface(server.stdout), 'line');
  const { listening } = JSON.parse(line);
  return { url: `${listening}/notes`, address: new URL(listening).host, token, reader, stop };
}

/** Waits until `holds`, at most so many seconds. */
export async function until(what, holds, seconds = 30) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    if (await holds()) return;
    if (Date.now() > end) throw new Error(`not within ${seconds} s: ${what}`);
    await sleep(20);
  }
}
