/**
 * Synchronizes SQLite files from JavaScript.
 *
 * Whatever may take long runs outside of the calling thread, and no second SQLite comes into the process: two
 * SQLite libraries on one file lose each other's locks, and with them commits. lib/library.js chooses.
 */
import { SynqliteError } from './lib/error.js';
import { operations } from './lib/operations.js';
import { extensionPath } from './lib/platform.js';
import { run } from './lib/session.js';

export { SynqliteError } from './lib/error.js';
export { commandPath, extensionPath } from './lib/platform.js';
export { Live, live } from './lib/live.js';
export { Watch, watch } from './lib/watch.js';

/** Loads the SQL functions `synqlite_…` into a connection of better-sqlite3 or node:sqlite. */
export function load(db) {
  const path = extensionPath();
  if (typeof db?.loadExtension !== 'function') {
    const hint = 'Pass a Database of better-sqlite3 or a DatabaseSync of node:sqlite';
    throw new SynqliteError('usage', 'what load was given cannot load extensions', hint);
  }
  try {
    db.loadExtension(path);
  } catch (cause) {
    const hint = cause.message.includes('not allowed')
      ? 'Open the database with { allowExtension: true }'
      : 'Check that the file is built for this platform, and that the database is open';
    const what = `${path} cannot be loaded: ${cause.message}`;
    throw new SynqliteError('refused', what, hint, cause);
  }
}

export const init = async (path, options) => run(operations.init(path), options);
export const clone = async (remote, path, options) => run(operations.clone(remote, path), options);
export const sync = async (path, remote, options) => run(operations.sync(path, remote), options);
export const push = async (path, remote, options) => run(operations.push(path, remote), options);
export const pull = async (path, remote, options) => run(operations.pull(path, remote), options);
export const fold = async (path, options) => run(operations.fold(path), options);
export const status = async (path, options) => run(operations.status(path), options);
export const digest = async (path, options) => run(operations.digest(path), options);
export const verify = async (path, options) => run(operations.verify(path), options);
export const conflicts = async (path, options) => run(operations.conflicts(path), options);
export const settle = async (path, id, verb, options) => run(operations.settle(path, id, verb), options);
export const log = async (path, options) => run(operations.log(path), options);
export const changes = async (path, options) => run(operations.changes(path), options);
export const undo = async (path, selection) => run(operations.undo(path), selection);
export const policy = async (path, key, value, options) => run(operations.policy(path, key, value), options);
export const remotes = async (path, options) => run(operations.remotes(path), options);
export const addRemote = async (path, name, url, options) =>
  run(operations.addRemote(path, name, url), options);
export const removeRemote = async (path, name, options) => run(operations.removeRemote(path, name), options);
