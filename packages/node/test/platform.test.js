/** Which binary and which library are taken, and what is said where there is none. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { choose, loaded } from '../lib/library.js';
import { find } from '../lib/platform.js';
import { ThreadSession } from '../lib/thread.js';
import { pauseAfter } from '../lib/watch.js';
import { folder } from './help.js';

/** What a program prints that runs with this environment and no binary, on a platform called so. */
function elsewhere(arch, code, env = {}) {
  const { SYNQLITE_EXTENSION, SYNQLITE_COMMAND, ...rest } = process.env;
  const lie = arch ? `Object.defineProperty(process, 'arch', { value: '${arch}' });` : '';
  const program = `${lie} const s = await import('synqlite'); ${code}`;
  const cwd = new URL('..', import.meta.url);
  const argv = ['--input-type=module', '--eval', program];
  return execFileSync(process.execPath, argv, { cwd, env: { ...rest, ...env }, encoding: 'utf8' }).trim();
}

test('a platform without binaries is named, and what to do', () => {
  const failed = `await s.sync('a.db').catch((e) => console.log(e.name, e.kind, e.message))`;
  const said = elsewhere('sparc', failed);
  assert.match(said, /^SynqliteError refused SynQLite's extension for \w+-sparc is not installed/);
  assert.match(said, /SYNQLITE_EXTENSION.*SYNQLITE_COMMAND/);
  const loading = `try { s.load({}) } catch (e) { console.log(e.kind, e.message) }`;
  assert.match(elsewhere('sparc', loading), /^refused SynQLite's extension for .*-sparc is not installed/);
  const asking = `try { s.commandPath() } catch (e) { console.log(e.message) }`;
  assert.match(elsewhere('sparc', asking), /^SynQLite's command for .*-sparc/);
});

test('a variable that names no file is named', () => {
  const asked = `await s.status('a.db').catch((e) => console.log(e.kind, e.message))`;
  const said = elsewhere(null, asked, { SYNQLITE_COMMAND: '/nowhere/synqlite' });
  assert.match(said, /^refused SYNQLITE_COMMAND names \/nowhere\/synqlite, which is not there. Correct/);
});

test('a command that is none is told', (t) => {
  const dir = folder(t);
  const [fake, db] = [join(dir, 'fake'), join(dir, 'a.db')];
  writeFileSync(fake, '#!/bin/sh\necho no such thing >&2\nexit 9\n');
  chmodSync(fake, 0o755);
  writeFileSync(db, '');
  const asked = `await s.status('${db}').catch((e) => console.log(e.kind, e.message))`;
  const broken = elsewhere(null, asked, { SYNQLITE_COMMAND: fake });
  assert.match(broken, /^defect .*fake gave no answer: no such thing/);
  chmodSync(fake, 0o644);
  assert.match(elsewhere(null, asked, { SYNQLITE_COMMAND: fake }), /^defect .*gave no answer: .*EACCES/);
});

test('the library that is loaded does the work; the command where that is not known', (t) => {
  const dir = folder(t);
  const before = { ...process.env };
  t.after(() => Object.assign(process.env, before));
  for (const variable of ['SYNQLITE_EXTENSION', 'SYNQLITE_COMMAND']) {
    process.env[variable] = join(dir, variable);
    writeFileSync(process.env[variable], '');
  }
  const seen = (...files) => ({ ...loaded(files), builtin: false });
  const better = '/app/node_modules/better-sqlite3/lib/index.js';
  const addon = '/app/node_modules/better-sqlite3/build/Release/better_sqlite3.node';
  const other = '/app/node_modules/sqlite3/build/Release/node_sqlite3.node';
  const unrelated = '/my-sqlite-app/node_modules/bcrypt/build/Release/bcrypt.node';
  assert.equal(choose(undefined, seen()).name, 'command');
  assert.equal(choose(undefined, seen(better, addon, unrelated)).module, better);
  assert.equal(choose(undefined, seen(better, addon, other)).name, 'command');
  assert.equal(choose(undefined, seen(better, `/b${better}`)).name, 'command');
  assert.equal(choose(undefined, seen(other)).name, 'command');
  assert.equal(choose(undefined, seen(addon)).name, 'command');
  assert.equal(choose(undefined, { ...seen(better), builtin: true }).name, 'command');
  assert.equal(choose('better-sqlite3', { ...seen(better), builtin: true }).module, better);
  delete process.env.SYNQLITE_COMMAND;
  // Where the package of this platform is installed, both are always there.
  if (find('command')) return;
  assert.equal(choose(undefined, seen()).name, 'better-sqlite3');
  assert.throws(() => choose(undefined, seen(better, other)), { kind: 'refused', message: /command for/ });
  assert.throws(() => choose('command', seen()), { message: /command for/ });
  delete process.env.SYNQLITE_EXTENSION;
  assert.throws(() => choose(undefined, seen(better)), { message: /extension for/ });
});

test('a thread that dies is told to those who wait', async (t) => {
  const dir = folder(t);
  const module = join(dir, 'dies.cjs');
  writeFileSync(module, 'module.exports = class { constructor() { process.exit(3); } };');
  const session = new ThreadSession({ name: 'better-sqlite3', module, extension: 'none' }, 'a.db');
  await assert.rejects(session.open(), { kind: 'defect', message: /thread that works on a\.db ended/ });
  await assert.rejects(session.wait(10), { kind: 'defect', message: /closed/ });
  await session.close();
});

test('pauses grow to a minute', () => {
  const pauses = [1, 2, 3, 6, 7, 2000].map((failures) => pauseAfter(failures, 1));
  assert.deepEqual(pauses, [1000, 2000, 4000, 32_000, 60_000, 60_000]);
  assert.equal(pauseAfter(3, 0), 2000);
});
