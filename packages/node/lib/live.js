/**
 * A query that is run again when what it reads may have changed, by whatever program or merge. It runs on the
 * program's own connection, in the calling thread; only the waiting is done elsewhere. A failure does not end it:
 * it is an event, and the query runs again at the next change.
 */
import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { SynqliteError } from './error.js';
import { given, refuseOthers } from './operations.js';
import { open } from './session.js';
import { SLICE } from './watch.js';

/** The file of a connection's main database. */
function fileOf(db) {
  const main = db.prepare('PRAGMA database_list').all().find(({ name }) => name === 'main');
  if (main?.file) return main.file;
  const hint = 'Use a file: only of one can be known that others wrote to it';
  throw new SynqliteError('refused', 'a database in memory is no one else\'s to change', hint);
}

/** Whether a step of SQLite's machine makes a statement one that writes, as sqlite3_stmt_readonly has it. */
const writes = ({ opcode, p2 }) => (opcode === 'Transaction'
  ? Number(p2) !== 0
  : ['AutoCommit', 'Savepoint', 'Checkpoint', 'Vacuum', 'JournalMode'].includes(opcode));

/** Whether a step opens a table or an index: `p2` is its first page, `p3` the number of its database. */
const opens = ({ opcode }) => ['OpenRead', 'ReopenIdx'].includes(opcode);

/** Says which table of a database other than main a query reads, by the number of that database. */
function refuse(db, program, number) {
  const { name, file } = db.prepare('PRAGMA database_list').all().find(({ seq }) => Number(seq) === number);
  const page = program.find((step) => opens(step) && Number(step.p3) === number)?.p2;
  const sql = `SELECT tbl_name FROM "${name.replaceAll('"', '""')}".sqlite_schema WHERE rootpage = ?`;
  const table = page === undefined ? undefined : db.prepare(sql).get(page)?.tbl_name;
  const read = table ? `${name}.${table}` : `a table of ${name}`;
  const what = `the query reads ${read}, and changes are noticed in the main database only`;
  const hint = file
    ? `Use a connection that has ${file} as its main database`
    : 'Keep its rows in an ordinary table of the main database';
  throw new SynqliteError('refused', what, hint);
}

/** The tables that a query reads, as its program for SQLite's machine says; null if that may be any. */
export function tablesOf(db, sql, params = []) {
  const program = db.prepare(`EXPLAIN ${sql}`).all(...[params].flat());
  if (program.some(writes)) {
    throw new SynqliteError('usage', 'the statement of a live query writes', 'Give a SELECT');
  }
  const elsewhere = program.find(({ opcode, p1 }) => opcode === 'Transaction' && Number(p1) !== 0);
  if (elsewhere) refuse(db, program, Number(elsewhere.p1));
  const roots = new Map(db.prepare('SELECT rootpage, tbl_name FROM main.sqlite_schema WHERE rootpage > 0').all()
    .map(({ rootpage, tbl_name }) => [Number(rootpage), tbl_name]));
  const tables = new Set();
  for (const step of program) {
    if (step.opcode === 'VOpen') return null;
    if (!opens(step)) continue;
    const table = roots.get(Number(step.p2));
    if (table === undefined) return null;
    tables.add(table);
  }
  return tables;
}

const typed = (_, value) => {
  if (typeof value === 'bigint') return { bigint: String(value) };
  if (value?.type === 'Buffer') return { blob: Buffer.from(value.data).toString('hex') };
  return value instanceof Uint8Array ? { blob: Buffer.from(value).toString('hex') } : value;
};

/** A text that is the same for equal values only. */
const print = (values) => JSON.stringify(values, typed);

/** What is different between the rows of two runs; `key`: names of the columns that tell rows apart. */
export function difference(before, after, key = []) {
  const [went, added] = [new Map(), []];
  for (const row of before) {
    const text = print(row);
    went.set(text, [...(went.get(text) ?? []), row]);
  }
  for (const row of after) {
    if (!went.get(print(row))?.pop()) added.push(row);
  }
  let removed = [...went.values()].flat();
  if (key.length === 0) return { rows: after, added, changed: [], removed };
  const named = (row) => print(key.map((column) => row[column]));
  const former = new Map();
  for (const row of removed) former.set(named(row), [...(former.get(named(row)) ?? []), row]);
  const [fresh, changed] = [[], []];
  for (const row of added) {
    const was = former.get(named(row))?.shift();
    if (was) changed.push([was, row]);
    else fresh.push(row);
  }
  removed = [...former.values()].flat();
  return { rows: after, added: fresh, changed, removed };
}

export class Live extends EventEmitter {
  #stopping = new AbortController();
  #rows = [];
  #told = false;
  #error = null;
  #ended;

  constructor(db, sql, listener, options) {
    super();
    this.#ended = this.#run(db, sql, listener, options);
  }

  /** The rows as they were told last. */
  get rows() {
    return this.#rows;
  }

  /** Why the last run failed; null if it did not. */
  get error() {
    return this.#error;
  }

  async stop() {
    this.#stopping.abort();
    await this.#ended;
  }

  async #run(db, sql, listener, { library, params = [], key = [] }) {
    // Not within the constructor: who makes it has not begun to listen there.
    await null;
    let session;
    let owed = true;
    let tables = null;
    while (!this.#stopping.signal.aborted) {
      try {
        session ??= await open(fileOf(db), library);
        const answer = await session.wait(SLICE);
        const known = answer.tables && tables && !this.#error;
        owed ||= answer.woke === 'commit' && (!known || answer.tables.some((table) => tables.has(table)));
        // What a transaction of the program has written is not there yet.
        if (!owed || db.inTransaction || db.isTransaction || this.#stopping.signal.aborted) continue;
        tables = tablesOf(db, sql, params);
        this.#ask(db.prepare(sql), listener, params, [key].flat());
        [owed, this.#error] = [false, null];
      } catch (error) {
        await session?.close();
        session = undefined;
        owed = true;
        const news = this.#error?.message !== error.message;
        this.#error = error;
        if (news) process.nextTick(() => this.emit('failure', error));
        await sleep(SLICE, undefined, { signal: this.#stopping.signal }).catch(() => {});
      }
    }
    await session?.close();
  }

  #ask(statement, listener, params, key) {
    const rows = statement.all(...[params].flat());
    const missing = rows.length > 0 && key.find((column) => !(column in rows[0]));
    if (missing) {
      const hint = 'Name columns of its result as the key';
      throw new SynqliteError('usage', `the query has no column ${missing}`, hint);
    }
    const found = difference(this.#rows, rows, key);
    if (this.#told && print(this.#rows) === print(rows)) return;
    [this.#rows, this.#told] = [rows, true];
    // A listener's error is the program's own.
    process.nextTick(() => listener(found));
  }
}

export const live = (db, sql, listener, options) => {
  if (typeof db?.prepare !== 'function' || typeof listener !== 'function') {
    const hint = 'Pass a Database of better-sqlite3 or a DatabaseSync of node:sqlite, a query and a function';
    throw new SynqliteError('usage', 'live was not given what it needs', hint);
  }
  refuseOthers(options ?? {}, ['library', 'params', 'key']);
  return new Live(db, sql, listener, given(options));
};
