/**
 * The tests that each query builder or ORM passes alike. All of them work by better-sqlite3, so the package finds
 * that loaded and lets it do the work.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { clone, conflicts, digest, init, live, settle, sync } from 'synqlite';
import { choose } from '../lib/library.js';
import { folder, skip, until } from './help.js';

/** A module, or null where it is not installed. */
export const installed = (name) =>
  import(name).catch((error) => {
    if (error.code === 'ERR_MODULE_NOT_FOUND') return null;
    throw error;
  });

/**
 * `connect`: opens a file as a program does that uses `name`, and makes table `todo` where there is none:
 * { handle, query, add, finish, list, transaction, close }. `handle` is a connection of better-sqlite3, `query` all
 * of the table as SQL with its parameters.
 */
export function orm(name, module, connect) {
  const why = module ? skip : `${name} is not installed`;
  const check = (what, body) => test(`${name}: ${what}`, { skip: why }, body);

  /** A replica and its clone, both opened. */
  async function pair(t) {
    const dir = folder(t);
    const paths = [join(dir, 'home.db'), join(dir, 'laptop.db')];
    const home = await connect(paths[0]);
    t.after(() => home.close());
    await home.add('milk');
    await init(paths[0]);
    await clone(paths[0], paths[1]);
    const laptop = await connect(paths[1]);
    t.after(() => laptop.close());
    return { paths, home, laptop };
  }

  check('what is written by both shows in its queries, and better-sqlite3 does the work', async (t) => {
    const { paths, home, laptop } = await pair(t);
    assert.equal(choose().name, 'better-sqlite3');
    await home.add('rent');
    // Of two rows of one number the later gets another, and of one millisecond neither is the later.
    await sleep(5);
    await laptop.add('stamps');
    await laptop.finish('milk');
    const { sent, received, merged, tables } = await sync(paths[1]);
    assert.deepEqual([sent.rows, received.rows], [2, 1]);
    assert.deepEqual(tables, { todo: merged });
    const all = [['milk', 1], ['rent', 0], ['stamps', 0]];
    for (const each of [home, laptop]) assert.deepEqual(await each.list(), all);
    const [here, there] = await Promise.all(paths.map((path) => digest(path)));
    assert.equal(here.digest, there.digest);
  });

  check('it writes while others synchronize', async (t) => {
    const { paths, home, laptop } = await pair(t);
    let [written, goesOn] = [0, true];
    const writing = (async () => {
      for (; goesOn; await sleep(5)) await home.add(`home ${written++}`);
    })();
    for (let round = 0; round < 4; round++) {
      await laptop.add(`laptop ${round}`);
      await sync(paths[1]);
    }
    goesOn = false;
    await writing;
    await sync(paths[1]);
    assert.ok(written > 4, `wrote ${written}`);
    assert.deepEqual(await laptop.list(), await home.list());
    assert.equal((await home.list()).length, 1 + written + 4);
  });

  check('what steps aside is settled', async (t) => {
    const { paths, home, laptop } = await pair(t);
    await home.add('rent');
    await laptop.add('rent');
    assert.equal((await sync(paths[1])).conflicts, 1);
    const [{ id, declared }] = (await conflicts(paths[1])).conflicts;
    assert.equal(declared, 'UNIQUE (title)');
    await settle(paths[1], id, 'discard');
    await sync(paths[1]);
    for (const each of [home, laptop]) assert.deepEqual(await each.list(), [['milk', 0], ['rent', 0]]);
    assert.deepEqual((await conflicts(paths[0])).conflicts, []);
  });

  check('a query stays up to date while another site writes', async (t) => {
    const { paths, home, laptop } = await pair(t);
    let shown = [];
    const [sql, params] = laptop.query();
    const query = live(laptop.handle, sql, ({ rows }) => { shown = rows.map(({ title }) => title); }, { params });
    t.after(() => query.stop());
    await until('the first answer', () => shown.length === 1);
    await home.add('bread');
    await sync(paths[1]);
    await until('the row that came', () => shown.sort().join() === 'bread,milk');
  });

  check('a transaction of its own keeps others out until it ends', async (t) => {
    const { paths, laptop } = await pair(t);
    await laptop.transaction(async (add) => {
      await add('inside');
      await assert.rejects(sync(paths[1], null, { wait: 0 }), { kind: 'locked' });
    });
    assert.equal((await sync(paths[1])).sent.rows, 1);
  });
}
