/**
 * The tests that each library passes alike. They run in a process that has loaded that one only: the package
 * then chooses it without being told.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import * as synqlite from 'synqlite';
import { choose } from '../lib/library.js';
import { command, folder, hub, noCommand, noExtension, shell, until } from './help.js';

const { clone, init, sync } = synqlite;
const TODO = `CREATE TABLE todo(id INTEGER PRIMARY KEY, title TEXT NOT NULL UNIQUE, done INT DEFAULT 0)`;

/** `connect`: opens a file in this thread, as the program does: { exec, all, close }. */
export function suite(library, connect) {
  const skip = noCommand ?? (library === 'command' ? false : (noExtension ?? false));
  const check = (name, body) => test(`${library}: ${name}`, { skip }, body);

  /** A replica and its clone, through a shared folder. */
  async function pair(t) {
    const dir = folder(t);
    const [home, laptop] = [join(dir, 'home.db'), join(dir, 'laptop.db')];
    await shell(home, `${TODO}; INSERT INTO todo(title) VALUES ('milk'), ('rent');`);
    const store = pathToFileURL(join(dir, 'store/'));
    await init(home);
    await synqlite.addRemote(home, 'origin', store);
    await synqlite.push(home);
    await clone(store, laptop);
    return { dir, home, laptop, store };
  }

  const same = async (...paths) => {
    const [first, ...others] = await Promise.all(paths.map((path) => synqlite.digest(path)));
    for (const other of others) assert.equal(other.digest, first.digest);
  };

  const fails = async (promise, kind, message, hint) => {
    const error = await promise.then(() => assert.fail(`done, not ${kind}`), (error) => error);
    assert.ok(error instanceof synqlite.SynqliteError, String(error.stack));
    assert.equal(error.kind, kind, error.message);
    assert.match(error.message, message);
    if (hint) assert.match(error.hint, hint);
    if (error.hint) assert.ok(error.message.endsWith(error.hint));
    return error;
  };

  /** A watch that ends with the test, however that ends. */
  function watching(t, ...args) {
    const watch = synqlite.watch(...args);
    t.after(() => watch.stop());
    return watch;
  }

  check('is chosen', () => {
    assert.equal(choose().name, library);
  });

  check('two replicas meet in a folder while programs write', async (t) => {
    const { home, laptop } = await pair(t);
    const db = connect(home);
    let [written, goesOn] = [0, true];
    const writing = (async () => {
      for (; goesOn; await sleep(5)) await db.exec(`INSERT INTO todo(title) VALUES ('home ${written++}')`);
    })();
    for (let round = 0; round < 5; round++) {
      await shell(laptop, `INSERT INTO todo(title) VALUES ('laptop ${round}')`);
      await Promise.all([sync(home), sync(laptop)]);
    }
    goesOn = false;
    await writing;
    assert.ok(written > 5, `wrote ${written}`);
    await sync(home);
    await sync(laptop);
    await sync(home);
    await same(home, laptop);
    assert.equal(db.all('SELECT count(*) AS n FROM todo')[0].n, 2 + written + 5);
    assert.equal(await shell(laptop, `SELECT count(*) FROM todo WHERE title LIKE 'home %'`), String(written));
    db.close();
  });

  check('two replicas meet at a hub', async (t) => {
    const dir = folder(t);
    const { url, token } = await hub(t, dir);
    const [home, laptop] = [join(dir, 'home.db'), join(dir, 'laptop.db')];
    await shell(home, `${TODO}; INSERT INTO todo(title) VALUES ('milk');`);
    await init(home);
    let asked = 0;
    const ask = async () => { asked += 1; return token; };
    assert.equal((await sync(home, url, { token: ask })).sent.rows, 1);
    await clone(url, laptop, { token });
    const kept = (await synqlite.remotes(laptop)).remotes;
    assert.deepEqual(kept, [{ name: 'origin', url, token: 'kept' }]);
    await shell(laptop, `INSERT INTO todo(title) VALUES ('stamps')`);
    assert.equal((await sync(laptop)).sent.rows, 1);
    assert.equal((await sync(home, url, { token: ask })).received.rows, 1);
    assert.equal(asked, 2);
    await same(home, laptop);

    await fails(sync(home, url, { token: 'synq_wrong' }), 'refused', /wants a token/);
    await fails(sync(home, url), 'refused', /wants a token/);
    await fails(sync(home, url, { token: () => 7 }), 'usage', /the token is number/);
    const broken = sync(home, url, { token: () => { throw new Error('signed out'); } });
    assert.equal((await fails(broken, 'refused', /signed out/)).cause.message, 'signed out');
  });

  check('a conflict is listed and settled', async (t) => {
    const { home, laptop } = await pair(t);
    await shell(home, `INSERT INTO todo(title, done) VALUES ('call', 1)`);
    await shell(laptop, `INSERT INTO todo(title, done) VALUES ('call', 2)`);
    await sync(home);
    const result = await sync(laptop);
    assert.equal(result.conflicts, 1);
    assert.ok(result.decisions.some(({ what }) => /hidden/.test(what)), JSON.stringify(result.decisions));
    assert.ok(result.decisions.every(({ name }) => name === null || typeof name === 'string'));
    await sync(home);
    const { conflicts } = await synqlite.conflicts(home);
    assert.equal(conflicts.length, 1);
    const [{ id, table, kind, displaced }] = conflicts;
    assert.deepEqual([table, kind, displaced.title, displaced.done], ['todo', 'unique', 'call', 2]);
    assert.deepEqual(await synqlite.settle(home, id.slice(0, 8), 'discard'), { settled: id, open: 0 });
    await sync(home);
    await sync(laptop);
    assert.deepEqual(await synqlite.conflicts(laptop), { conflicts: [] });
    const { closed } = await synqlite.conflicts(laptop, { closed: true });
    assert.ok(closed.some((c) => c.id === id), JSON.stringify(closed));
    await same(home, laptop);
    await fails(synqlite.settle(home, id, 'prefer'), 'refused', /no open conflict/);
  });

  check('what a replica says of itself', async (t) => {
    const dir = folder(t);
    const db = join(dir, 'a.db');
    await shell(db, `CREATE TABLE stock(id INTEGER PRIMARY KEY, n INT); INSERT INTO stock(n) VALUES (1)`);
    const made = await init(db, { policies: { 'stock.n': 'counter' }, history: true, name: '-shop' });
    assert.deepEqual(made.tables, [{ name: 'stock', identity: 'birth', rows: 1 }]);
    assert.deepEqual(await synqlite.policy(db), { policies: { 'stock.n': 'counter' } });
    const set = await synqlite.policy(db, 'fk', 'ignore');
    assert.deepEqual(set, { policies: { fk: 'ignore', 'stock.n': 'counter' } });
    await shell(db, `UPDATE stock SET n = 2; UPDATE stock SET n = 3`);
    const before = await synqlite.status(db);
    assert.deepEqual([before.site, before.site_name], [made.site, '-shop']);
    assert.deepEqual(before.pending, { stock: { inserted: 0, updated: 1, deleted: 0 } });
    assert.equal((await synqlite.fold(db)).rows, 1);
    assert.deepEqual((await synqlite.status(db)).pending, {});
    assert.equal((await synqlite.log(db, { limit: 1 })).entries.length, 1);
    assert.ok((await synqlite.log(db)).entries.length > 1);
    assert.deepEqual(await synqlite.verify(db, { full: true }), { ok: true, problems: [] });
    await fails(synqlite.removeRemote(db, 'x'), 'refused', /no remote called x/);
    if (library !== 'command') await fails(synqlite.push(db, 's3://bucket/x'), 'refused', /library: 'command'/);
    const misnamed = await fails(synqlite.addRemote(db, 'a. b', 'x'), 'refused', /`a\. b` cannot/);
    assert.equal(misnamed.hint, 'Use letters, digits and - _ . and begin with a letter or a digit');
    await synqlite.addRemote(db, 'x', pathToFileURL(join(dir, 'store/')));
    assert.equal((await synqlite.push(db, 'x', { whole: true, force: true })).sent.rows, 1);
    assert.equal((await synqlite.pull(db, 'x')).received.rows, 0);
    assert.deepEqual(await synqlite.removeRemote(db, 'x'), { remotes: [] });
  });

  check('what is wrong with a replica is told, not thrown', async (t) => {
    const { home } = await pair(t);
    await shell(home, `UPDATE todo SET title = 'unseen' WHERE id = 1`, '.dbconfig enable_trigger off');
    const found = await synqlite.verify(home, { full: true });
    assert.equal(found.ok, false);
    assert.ok(found.problems.length > 0);
  });

  check('the event loop goes on during a sync', async (t) => {
    const { home, laptop } = await pair(t);
    await shell(home, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
      INSERT INTO todo(title) SELECT 'row ' || i FROM n`);
    await sync(home);
    const begun = performance.now();
    let [last, longest] = [begun, 0];
    const ticking = setInterval(() => {
      const now = performance.now();
      [last, longest] = [now, Math.max(longest, now - last)];
    }, 5);
    const { received } = await sync(laptop);
    const took = performance.now() - begun;
    clearInterval(ticking);
    longest = Math.max(longest, performance.now() - last);
    assert.equal(received.rows, 60000);
    assert.ok(took > 200, `the sync took ${took} ms, too few to see anything`);
    assert.ok(longest < took / 3, `the loop stood still for ${longest} ms of ${took}`);
    t.diagnostic(`the loop stood still for ${Math.round(longest)} ms of ${Math.round(took)}`);
    await same(home, laptop);
  });

  for (const mode of ['wal', 'delete']) {
    check(`the locks of the program hold, journal mode ${mode}`, async (t) => {
      const { home } = await pair(t);
      await shell(home, `PRAGMA journal_mode = ${mode}`);
      const db = connect(home);
      await db.exec(`BEGIN IMMEDIATE; INSERT INTO todo(title) VALUES ('mine')`);
      await synqlite.status(home);
      await fails(sync(home, null, { wait: 1 }), 'locked', /locked/, /again/);
      const other = shell(home, `INSERT INTO todo(title) VALUES ('other')`, '.timeout 0');
      await assert.rejects(other, /database is locked/);
      await db.exec('COMMIT');
      assert.equal((await sync(home)).sent.rows, 1);
      assert.equal(await shell(home, `SELECT count(*) FROM todo WHERE title = 'mine'`), '1');
      await db.exec('BEGIN EXCLUSIVE');
      const waits = synqlite.status(home);
      await sleep(500);
      await db.exec('COMMIT');
      assert.equal((await waits).unfolded, 0);
      db.close();
    });
  }

  check('a live query tells its rows, and then what is different', async (t) => {
    if (library === 'command') return t.skip('this program has no connection to run it on');
    const { home, laptop } = await pair(t);
    const db = connect(home);
    const told = [];
    const sql = 'SELECT title, done FROM todo WHERE id < ? ORDER BY title';
    const query = synqlite.live(db.handle, sql, (found) => told.push(found), { params: [100], key: 'title' });
    t.after(() => query.stop());
    await until('the first rows', () => told.length === 1);
    const plain = (rows) => rows.map((row) => [row.title, row.done]);
    assert.deepEqual(plain(told[0].rows), [['milk', 0], ['rent', 0]]);
    assert.deepEqual(told[0].added, told[0].rows);
    await shell(home, `INSERT INTO todo(title) VALUES ('tea'); UPDATE todo SET done = 1 WHERE title = 'milk'`);
    await until('what another program wrote', () => query.rows.length === 3 && query.rows[0].done === 1);
    await shell(laptop, `DELETE FROM todo WHERE title = 'rent'`);
    await sync(laptop);
    await sync(home);
    await until('what a merge brought', () => query.rows.length === 2);
    assert.deepEqual(plain(told.at(-1).removed), [['rent', 0]]);
    const changed = told.flatMap((found) => found.changed);
    assert.deepEqual(changed.map(([was, is]) => [was.done, is.done]), [[0, 1]]);
    const failures = [];
    query.on('failure', (error) => failures.push(error.message));
    await shell(home, `ALTER TABLE todo RENAME TO plan`);
    await until('the failure', () => failures.length === 1);
    assert.match(query.error.message, /no such table/);
    await shell(home, `ALTER TABLE plan RENAME TO todo; DELETE FROM todo WHERE title = 'tea'`);
    await until('that it goes on', () => query.rows.length === 1 && query.error === null);
    await query.stop();
    const before = told.length;
    await shell(home, `DELETE FROM todo`);
    await sleep(400);
    assert.equal(told.length, before);
    assert.throws(() => synqlite.live({}, sql, () => {}), { kind: 'usage' });
    db.close();
  });

  check('a live query that nobody can keep up to date, or that writes, is refused', async (t) => {
    if (library === 'command') return t.skip('this program has no connection to run it on');
    const { dir, home } = await pair(t);
    const db = connect(home);
    db.exec(`ATTACH '${join(dir, 'other.db')}' AS "the other"; CREATE TABLE "the other".u(x INTEGER PRIMARY KEY);
      CREATE VIRTUAL TABLE "the other".f USING fts5(x); CREATE TEMP TABLE mine(x);
      CREATE TEMP VIEW titles AS SELECT title FROM main.todo`);
    for (const [sql, kind, message, hint] of [
      ['SELECT count(*) FROM u', 'refused', /the query reads the other\.u,/, /has .*other\.db as its main/],
      ['SELECT title FROM todo JOIN u', 'refused', /the query reads the other\.u,/, /main/],
      ['SELECT * FROM f', 'refused', /the query reads a table of the other,/, /main/],
      ['SELECT * FROM mine', 'refused', /the query reads temp\.mine,/, /ordinary table/],
      [`INSERT INTO todo(title) VALUES ('x') RETURNING id`, 'usage', /writes/, /SELECT/],
      [`WITH gone AS (SELECT 1) DELETE FROM todo`, 'usage', /writes/, /SELECT/],
      [`INSERT INTO mine VALUES (1) RETURNING x`, 'usage', /writes/, /SELECT/],
      ['BEGIN', 'usage', /writes/, /SELECT/],
    ]) {
      const query = synqlite.live(db.handle, sql, () => assert.fail(`${sql} ran`));
      t.after(() => query.stop());
      const failed = new Promise((failed) => query.once('failure', failed));
      await fails(failed.then((error) => { throw error; }), kind, message, hint);
      await query.stop();
    }
    assert.equal(await shell(home, 'SELECT count(*) FROM todo'), '2');
    let rows = 0;
    const view = synqlite.live(db.handle, 'SELECT * FROM titles', (found) => { rows = found.rows.length; }, null);
    t.after(() => view.stop());
    await until('the rows of a temporary view', () => rows === 2);
    await shell(home, `INSERT INTO todo(title) VALUES ('tea')`);
    await until('what was written', () => rows === 3);
    await view.stop();
    const misspelt = () => synqlite.live(db.handle, 'SELECT 1', () => {}, { parms: [1] });
    assert.throws(misspelt, { kind: 'usage', message: /no option parms here\. Known are library, params, key$/ });
    db.close();
  });

  check('null is as good as leaving an option out', async (t) => {
    const { home } = await pair(t);
    await init(home, null);
    await init(home, { policies: null, history: null, name: null, library: null, wait: null, token: undefined });
    const all = await synqlite.changes(home, { since: null, limit: null });
    assert.deepEqual([all.anew, all.changes.length], [true, 2]);
    assert.deepEqual(await synqlite.conflicts(home, { closed: null }), { conflicts: [] });
    assert.equal((await sync(home, null, { token: null, keyFile: null, whole: null })).sent.rows, 0);
    await fails(init(home, { nam: null }), 'usage', /no option nam/);
    const watch = watching(t, home, null, null);
    await until('a round', () => watch.state.online);
    await watch.stop();
    const spelt = watching(t, home, null, { interval: null, poll: null, token: null, library: null });
    await until('a round', () => spelt.state.online);
    await spelt.stop();
  });

  check('the rows that changed are listed', async (t) => {
    const { home } = await pair(t);
    const first = await synqlite.changes(home);
    assert.deepEqual([first.anew, first.changes.length], [true, 2]);
    await shell(home, `UPDATE todo SET done = 1 WHERE title = 'milk'; DELETE FROM todo WHERE title = 'rent'`);
    const later = await synqlite.changes(home, { since: first.token });
    assert.deepEqual(later.changes.map(({ change }) => change).sort(), ['delete', 'update']);
    assert.deepEqual(Object.keys(later.changes[0].written).sort(), ['at_ms', 'site', 'site_name']);
    assert.equal(later.anew, false);
    assert.deepEqual((await synqlite.changes(home, { since: later.token, limit: 5 })).changes, []);
    await fails(synqlite.changes(home, { since: 'none' }), 'refused', /token/);
  });

  check('changes are taken back', async (t) => {
    const dir = folder(t);
    const db = join(dir, 'a.db');
    await shell(db, `${TODO}; INSERT INTO todo(title) VALUES ('milk'), ('rent');`);
    await init(db, { history: true });
    await shell(db, `UPDATE todo SET title = 'oops' WHERE id = 1; DELETE FROM todo WHERE id = 2`);
    const would = await synqlite.undo(db, { since: '10m', dryRun: true });
    assert.equal(await shell(db, 'SELECT title FROM todo'), 'oops');
    const done = await synqlite.undo(db, { since: '10m', until: null });
    assert.deepEqual(done, { ...would, dry_run: false });
    assert.deepEqual(done.taken.map(({ row, change }) => [row, change]).sort(), [['1', 'update'], ['2', 'delete']]);
    assert.equal(await shell(db, 'SELECT group_concat(title) FROM todo'), 'milk,rent');
    for (const row of [1, 1n, '1']) {
      await shell(db, 'UPDATE todo SET done = 1 WHERE id = 1');
      const { taken, left } = await synqlite.undo(db, { table: 'todo', row });
      assert.deepEqual([taken[0].columns, left], [{ done: 0 }, []]);
    }
    await shell(db, 'UPDATE todo SET done = 1 WHERE id = 1');
    await synqlite.fold(db);
    const at = new Date((await synqlite.log(db, { limit: 1 })).entries[0].at_ms);
    assert.deepEqual((await synqlite.undo(db, { at })).taken[0].columns, { done: 0 });
    for (const [selection, message] of [
      [null, /which changes/],
      [{ table: 'todo' }, /which changes/],
      [{ dryRun: true, since: null }, /which changes/],
      [{ row: 1 }, /table/],
      [{ at, since: at }, /since/],
      [{ since: 'yesterday' }, /`yesterday` is no point of time/],
      [{ since: new Date('yesterday') }, /since is an invalid date/],
      [{ since: '1h', dry_run: true }, /no option dry_run here/],
    ]) {
      await fails(synqlite.undo(db, selection), 'usage', message);
    }
    await fails(synqlite.undo(db, { table: 'todo', row: 9 }), 'refused', /9/);
  });

  check('bad input is refused, and says what to do', async (t) => {
    const { dir, home, laptop, store } = await pair(t);
    const plain = join(dir, 'plain.db');
    const text = join(dir, 'text.db');
    const absent = join(dir, 'absent.db');
    await shell(plain, TODO);
    writeFileSync(text, 'not a database, '.repeat(1000));
    await fails(sync(absent), 'refused', /there is no database at .*absent\.db/, /Check the path/);
    assert.equal(existsSync(absent), false);
    await fails(synqlite.status(dir), 'refused', /is not a file/);
    await fails(sync(plain, store), 'refused', /plain\.db is not a replica/, /synqlite init/);
    await fails(synqlite.status(text), 'refused', /text\.db is not a SQLite database/, /ordinary/);
    await fails(sync(':memory:'), 'refused', /in memory/, /Use a file/);
    await fails(sync(''), 'usage', /path is empty/);
    await fails(sync(undefined), 'usage', /path is undefined/);
    await fails(sync(home, 'nowhere'), 'refused', /nowhere/);
    await fails(sync(home, 'gopher://x/y'), 'refused', /gopher/);
    await fails(sync(home, null, { tokn: 'x' }), 'usage', /no option tokn/, /token, keyFile/);
    await fails(sync(home, null, { library: 'sqlite4' }), 'usage', /no library sqlite4/, /better-sqlite3/);
    await fails(synqlite.log(home, { limit: -1 }), 'usage', /limit is -1/);
    await fails(synqlite.status(home, { wait: 'long' }), 'usage', /wait is long/);
    await fails(synqlite.policy(home, 'fk', 'maybe'), 'refused', /maybe/);
    await fails(clone(store, laptop), 'conflict', /exists/);
    await fails(synqlite.settle(home, 'ffff', 'explode'), 'usage', /explode/);
  });

  check('a key seals what goes to a remote', async (t) => {
    const { dir, home } = await pair(t);
    const [keyFile, copy] = [join(dir, 'notes.key'), join(dir, 'copy.db')];
    const sealed = pathToFileURL(join(dir, 'sealed/'));
    execFileSync(command, ['key', 'new', keyFile]);
    await synqlite.addRemote(home, 'sealed', sealed, { keyFile });
    assert.equal((await synqlite.push(home, 'sealed')).sent.rows, 2);
    await fails(clone(sealed, copy), 'refused', /sealed|key/);
    await clone(sealed, copy, { keyFile });
    await same(home, copy);
    assert.equal((await sync(copy, sealed, { keyFile })).sent.rows, 0);
  });

  check('a watch sends what is written, and fetches what others wrote', async (t) => {
    const { home, laptop } = await pair(t);
    const watches = [home, laptop].map((path) => watching(t, path, null, { interval: 300, poll: 50 }));
    const failures = [];
    watches.forEach((watch) => watch.on('failure', (error) => failures.push(error)));
    const db = connect(home);
    await db.exec(`INSERT INTO todo(title) VALUES ('from home')`);
    await shell(laptop, `INSERT INTO todo(title) VALUES ('from laptop')`);
    const count = (path) => shell(path, `SELECT count(*) FROM todo WHERE title LIKE 'from %'`);
    await until('both have both', async () => (await count(home)) === '2' && (await count(laptop)) === '2');
    await until('nothing is pending', () => watches.every(({ state }) => state.pending === 0));
    for (const { state } of watches) {
      assert.equal(state.online, true);
      assert.equal(state.error, null);
      assert.ok(Date.now() - state.lastSync < 30_000);
    }
    await Promise.all(watches.map((watch) => watch.stop()));
    await db.exec(`INSERT INTO todo(title) VALUES ('from home, late')`);
    const { lastSync } = watches[0].state;
    await sleep(700);
    assert.equal(watches[0].state.lastSync, lastSync);
    assert.deepEqual(failures, []);
    db.close();
  });

  check('a change ends the interval early, and a round without one brings no other', async (t) => {
    const { home } = await pair(t);
    const watch = watching(t, home, null, { interval: 600_000, poll: 30 });
    const rounds = [];
    watch.on('sync', (result) => rounds.push(result.sent.rows));
    await until('the first round', () => rounds.length === 1);
    await shell(home, `INSERT INTO todo(title) VALUES ('now')`);
    await until('the change was sent', () => rounds.length === 2);
    await sleep(500);
    assert.deepEqual(rounds, [0, 1]);
    assert.equal(watch.state.pending, 0);
    await watch.stop();
  });

  check('a watch outlives a hub that is away, and asks for a token at each attempt', async (t) => {
    const dir = folder(t);
    const first = await hub(t, dir);
    const home = join(dir, 'home.db');
    await shell(home, `${TODO}; INSERT INTO todo(title) VALUES ('milk');`);
    await init(home);
    const asked = [];
    const token = () => { asked.push(Date.now()); return asked.length === 1 ? 'synq_stale' : first.token; };
    const watch = watching(t, home, first.url, { interval: 200, poll: 50, token });
    const failures = [];
    watch.on('failure', (error) => failures.push(error.kind));
    await until('the second token is taken', () => watch.state.online);
    assert.deepEqual(failures, ['refused']);
    await first.stop();
    await until('the failure shows', () => watch.state.error !== null);
    assert.equal(watch.state.error.kind, 'network');
    assert.equal(watch.state.online, false);
    await shell(home, `INSERT INTO todo(title) VALUES ('stamps')`);
    const before = asked.length;
    await hub(t, dir, { listen: first.address });
    await until('it is back', () => watch.state.online && watch.state.pending === 0, 60);
    assert.equal(watch.state.error, null);
    assert.ok(asked.length > before);
    await watch.stop();
  });

  check('a watch tells of what came, also by a round that then fails', async (t) => {
    const dir = folder(t);
    const { url, token: writer, reader } = await hub(t, dir);
    const [home, laptop] = [join(dir, 'home.db'), join(dir, 'laptop.db')];
    await shell(home, `${TODO}; INSERT INTO todo(title) VALUES ('milk');`);
    await init(home);
    await sync(home, url, { token: writer });
    await clone(url, laptop, { token: writer });
    await shell(laptop, `INSERT INTO todo(title) VALUES ('cannot be sent')`);
    let token = reader;
    const watch = watching(t, laptop, url, { interval: 300, poll: 50, token: () => token });
    let [shown, changes, failures] = ['', 0, 0];
    const titles = () => execFileSync('sqlite3', [laptop, 'SELECT title FROM todo'], { encoding: 'utf8' });
    watch.on('change', () => { changes += 1; shown = titles(); });
    watch.on('failure', (error) => { failures += 1; assert.equal(error.kind, 'refused'); });
    await until('a failure', () => failures > 0);
    await shell(home, `INSERT INTO todo(title) VALUES ('from home')`);
    await sync(home, url, { token: writer });
    await until('what came before a failure is told', () => shown.includes('from home'));
    const later = failures + 1;
    let before = changes;
    await until('another failure', () => failures > later);
    assert.equal(changes, before, 'a round that brings nothing tells of no change');
    token = writer;
    await until('it is sent', () => watch.state.online && watch.state.pending === 0, 60);
    before = changes;
    await shell(home, `INSERT INTO todo(title) VALUES ('late')`);
    await sync(home, url, { token: writer });
    await until('what a round without a failure brings is told', () => shown.includes('late'));
    assert.ok(changes > before);
    await watch.stop();
  });

  check('a watch waits for a file, and follows the one that takes its place', async (t) => {
    const { dir, home, laptop } = await pair(t);
    const path = join(dir, 'later.db');
    const watch = watching(t, path, null, { interval: 600_000, poll: 30 });
    await until('the failure shows', () => watch.state.error !== null);
    assert.match(watch.state.error.message, /there is no database/);
    renameSync(laptop, path);
    await until('it has begun', () => watch.state.online);
    const { ino } = statSync(path);
    const other = join(dir, 'other.db');
    await clone(pathToFileURL(join(dir, 'store/')), other);
    renameSync(other, path);
    assert.notEqual(statSync(path).ino, ino);
    await shell(path, `INSERT INTO todo(title) VALUES ('in its place')`);
    await until('what was written there arrives', async () => (await sync(home)).received.rows > 0);
    await watch.stop();
  });

  check('a watch is iterated, and ends with the loop', async (t) => {
    const { home } = await pair(t);
    const watch = watching(t, home, null, { interval: 50 });
    let stopped = false;
    watch.on('stop', () => { stopped = true; });
    let rounds = 0;
    for await (const result of watch) {
      assert.equal(typeof result.sent.rows, 'number');
      if (++rounds === 3) break;
    }
    assert.ok(stopped, 'whoever listens has heard of the end');
    for await (const result of watch) assert.fail(`after the end: ${result}`);
    const other = watching(t, home, null, { interval: 50 });
    let stopping = false;
    for await (const _ of other) {
      // While the loop waits for the next round.
      if (!stopping) setTimeout(() => other.stop(), 20);
      stopping = true;
    }
    assert.ok(stopping);
  });

  check('a watch with bad input fails in its state, not in the program', async (t) => {
    const dir = folder(t);
    mkdirSync(join(dir, 'd'));
    for (const [args, message] of [
      [[undefined], /path is undefined/],
      [[join(dir, 'd')], /not a file/],
      [[join(dir, 'a.db'), null, { interval: 0 }], /interval is 0/],
      [[join(dir, 'a.db'), null, { every: 1 }], /no option every here\. Known are .*interval, poll/],
    ]) {
      const watch = watching(t, ...args);
      await until('the failure shows', () => watch.state.error !== null);
      assert.match(watch.state.error.message, message);
      await watch.stop();
    }
  });
}
