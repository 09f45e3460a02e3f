/**
 * Runs in a worker thread: one connection, of the library that the program has loaded, kept until the session
 * is closed. Nothing thrown here leaves the thread but as an answer.
 */
import { createRequire } from 'node:module';
import { parentPort, workerData } from 'node:worker_threads';
import { told } from './told.js';

const require = createRequire(import.meta.url);
const { library, path } = workerData;

/** Seconds, as the command has it. */
const DEFAULT_WAIT = 60;

let db;

const lastFailure = () => db.prepare('SELECT synqlite_failure() AS failure').get().failure;

/** Reading the schema meets locks too, before any function of the extension runs. */
const wait = (seconds) => db.exec(`PRAGMA busy_timeout = ${Math.round(seconds * 1000)}`);

const methods = {
  open() {
    if (library.name === 'node:sqlite') {
      const { DatabaseSync } = require('node:sqlite');
      db = new DatabaseSync(path ?? ':memory:', { allowExtension: true });
    } else {
      const Database = require(library.module);
      db = new Database(path ?? ':memory:', { fileMustExist: path !== null });
    }
    wait(DEFAULT_WAIT);
    db.loadExtension(library.extension);
  },

  // For a commit since the last wait, or until there is something to exchange with a remote.
  wait({ ms, remote, token }) {
    const options = JSON.stringify({ wait: DEFAULT_WAIT, ...(token && { token }) });
    return JSON.parse(db.prepare('SELECT synqlite_wait(?, ?, ?) AS answer').get(ms / 1000, remote, options).answer);
  },

  // A number that changes when another connection commits, as those of the extension are. Nobody is waited for: what
  // cannot be read now is no reason to be late.
  mark() {
    wait(0);
    try {
      return Number(db.prepare('PRAGMA data_version').get().data_version);
    } finally {
      wait(DEFAULT_WAIT);
    }
  },

  call({ name, args, seconds = DEFAULT_WAIT }) {
    wait(seconds);
    const row = db.prepare(`SELECT ${name}(${args.map(() => '?').join(', ')}) AS answer`).get(...args);
    return JSON.parse(row.answer);
  },
};

parentPort.on('message', ({ id, method, value }) => {
  if (method === 'close') {
    db?.close();
    parentPort.close();
    return;
  }
  try {
    parentPort.postMessage({ id, value: methods[method](value) });
  } catch (error) {
    parentPort.postMessage({ id, failure: told(error, path, lastFailure) });
  }
});
