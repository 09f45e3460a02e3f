/** A listener's error is the program's own: it ends neither the rounds nor the query, and is not swallowed. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { folder, shell, skip } from './help.js';

const CATCHES = `
  let thrown = 0;
  process.on('uncaughtException', (error) => {
    if (error.message !== 'mine') throw error;
    thrown += 1;
  });`;

const run = (program) => {
  const argv = ['--input-type=module', '--eval', program];
  return spawnSync(process.execPath, argv, { cwd: new URL('..', import.meta.url), encoding: 'utf8', timeout: 60_000 });
};

/** A replica and what watches it: programs without their end. */
async function programs(t) {
  const dir = folder(t);
  const db = join(dir, 'a.db');
  await shell(db, 'CREATE TABLE todo(id INTEGER PRIMARY KEY, title TEXT)');
  const watching = `
    import { init, watch } from 'synqlite';
    await init('${db}');
    const watching = watch('${db}', '${pathToFileURL(join(dir, 'store/'))}', { interval: 50, poll: 20 });
    watching.on('sync', () => { throw new Error('mine'); });
    watching.on('sync', () => { throw new Error('never reached'); });`;
  const living = `
    import Database from 'better-sqlite3';
    import { init, live } from 'synqlite';
    await init('${db}');
    const [db, other] = [new Database('${db}'), new Database('${db}')];
    const told = [];
    const query = live(db, 'SELECT id FROM todo', ({ rows, added }) => {
      told.push([rows.length, added.length]);
      if (rows.length < 3) other.exec("INSERT INTO todo(title) VALUES ('more')");
      throw new Error('mine');
    });`;
  return { watching, living };
}

test('a listener that throws does not stop a watch', { skip }, async (t) => {
  const { watching } = await programs(t);
  const { stdout, stderr } = run(`${watching} ${CATCHES}
    while (thrown < 3) await new Promise((later) => { setTimeout(later, 20); });
    await watching.stop();
    console.log(thrown);`);
  assert.ok(Number(stdout) > 2, stdout + stderr);
});

test('a listener that throws does not stop a live query, and is told nothing twice', { skip }, async (t) => {
  const { living } = await programs(t);
  const { stdout, stderr } = run(`${living} ${CATCHES}
    while (told.length < 4) await new Promise((later) => { setTimeout(later, 20); });
    await query.stop();
    console.log(JSON.stringify(told), query.rows.length, query.error, thrown);`);
  assert.equal(stdout, '[[0,0],[1,1],[2,1],[3,1]] 3 null 4\n', stderr);
});

test('what a listener throws ends a program that does not catch it', { skip }, async (t) => {
  for (const program of Object.values(await programs(t))) {
    const { status, stderr } = run(program);
    assert.equal(status, 1, stderr);
    assert.match(stderr, /Error: mine/);
  }
});
