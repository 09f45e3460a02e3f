/**
 * What can be asked for, each as a call of an SQL function and as a command line: one table, so that the two
 * ways cannot differ in what they take. Paths of databases are absolute, whatever the working folder is then.
 */
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SynqliteError } from './error.js';

function text(what, value) {
  if (value instanceof URL) return value.href;
  if (typeof value === 'string' && value !== '') return value;
  const hint = 'Pass a text that is not empty';
  throw new SynqliteError('usage', `${what} is ${value === '' ? 'empty' : typeof value}`, hint);
}

/** A path of the caller, absolute. */
function absolute(path) {
  if (path === ':memory:') {
    const hint = 'Use a file: other programs and sites have to find it';
    throw new SynqliteError('refused', 'a database in memory cannot be a replica', hint);
  }
  return resolve(path instanceof URL ? fileURLToPath(path) : text('the path', path));
}

/** Which file it is; a file that takes its place is another. Opens nothing: closing would drop locks. */
export function identity(path) {
  const found = statSync(path, { throwIfNoEntry: false, bigint: true });
  if (found?.isFile()) return `${found.dev}:${found.ino}`;
  const what = found ? `${path} is not a file` : `there is no database at ${path}`;
  throw new SynqliteError('refused', what, 'Check the path');
}

/**
 * An operation on a database. `words`: of the command; `name`: of the SQL function, after `synqlite_`;
 * `args`: its arguments, which the command takes as `argv`; `takes`: options, of which `arguments` are the last
 * arguments of the function; `keeps`: whether token and key file are kept, with the remote.
 */
function on(path, { words, name = words[0], args = [], argv = args, takes = [], arguments: last = [], keeps = false }) {
  const db = absolute(path);
  return { path: db, words, name, args, argv: [db, ...argv], takes, last, keeps };
}

function exchange(name, path, remote) {
  const to = remote == null ? [] : [text('the remote', remote)];
  const takes = ['token', 'keyFile', 'whole', 'force'];
  return on(path, { words: [name], args: [to[0] ?? null], argv: to, takes });
}

const inspect = (name, ...options) => (path) => on(path, { words: [name], takes: options, arguments: options });

export const operations = {
  init: (path) => on(path, { words: ['init'], takes: ['policies', 'history', 'name'] }),
  clone(remote, path) {
    const [from, db] = [text('the remote', remote), absolute(path)];
    const cloning = { words: ['clone'], name: 'clone', args: [from, db], argv: [from, db] };
    return { ...cloning, path: null, takes: ['token', 'keyFile', 'name'], keeps: true };
  },
  sync: (path, remote) => exchange('sync', path, remote),
  push: (path, remote) => exchange('push', path, remote),
  pull: (path, remote) => exchange('pull', path, remote),
  fold: inspect('fold'),
  status: inspect('status'),
  digest: inspect('digest'),
  verify: inspect('verify', 'full'),
  conflicts: inspect('conflicts', 'closed'),
  log: inspect('log', 'limit'),
  changes: inspect('changes', 'since', 'limit'),
  undo: (path) => on(path, { words: ['undo'], takes: ['since', 'until', 'at', 'table', 'row', 'dryRun'] }),
  settle(path, id, verb) {
    const [record, how] = [text('the id', id), text('the verb', verb)];
    return on(path, { words: ['conflicts'], name: 'settle', args: [record, how], argv: [how, record] });
  },
  policy(path, key, value) {
    const args = key == null ? [] : [text('the key', key), text('the value', value)];
    return on(path, { words: ['policy'], args, argv: args.length ? [args.join('=')] : [] });
  },
  remotes: (path) => on(path, { words: ['remote', 'list'], name: 'remotes' }),
  addRemote(path, name, url) {
    const args = [text('the name', name), text('the URL', url)];
    const adding = { words: ['remote', 'add'], name: 'remote_add', args };
    return on(path, { ...adding, takes: ['token', 'keyFile'], keeps: true });
  },
  removeRemote: (path, name) =>
    on(path, { words: ['remote', 'remove'], name: 'remote_remove', args: [text('the name', name)] }),
};

/** The options that have a value: null is as good as leaving one out. */
export const given = (options) =>
  Object.fromEntries(Object.entries(options ?? {}).filter(([, value]) => value != null));

/** A value as JSON and command lines can have it. */
const plain = (value) => {
  if (value instanceof Date) return value.toISOString();
  return typeof value === 'bigint' ? String(value) : value;
};

/** The options that have a value, with their names as SQL has them, by `_`, or the command, by `-`. */
const spelt = (options, mark) => Object.entries(given(options))
  .map(([key, value]) => [key.replace(/[A-Z]/g, (letter) => mark + letter.toLowerCase()), plain(value)]);

/** Refuses an option that is not known: one that is misspelt would count as absent. */
export function refuseOthers(options, known) {
  for (const key of Object.keys(options)) {
    if (known.includes(key)) continue;
    const hint = `Known are ${known.join(', ')}`;
    throw new SynqliteError('usage', `there is no option ${key} here`, hint);
  }
}

/** Checks the options of an operation; `more`: those that its caller takes beside. */
export function check(operation, options, more = []) {
  refuseOthers(options, [...operation.takes, 'library', 'wait', ...more]);
  for (const key of ['limit', 'wait']) {
    const number = options[key] ?? 0;
    if (Number.isSafeInteger(number) && number >= 0) continue;
    throw new SynqliteError('usage', `${key} is ${number}`, 'Give an integer, of at least 0');
  }
  for (const [key, value] of Object.entries(options)) {
    if (!(value instanceof Date) || !Number.isNaN(value.valueOf())) continue;
    throw new SynqliteError('usage', `${key} is an invalid date`, 'Give a valid one, or a text such as 10m');
  }
}

/** The call of the SQL function: its name, its arguments, options last, and how long to wait for locks. */
export function sqlCall({ name, args, last = [] }, options) {
  const rest = { ...options };
  const value = (said) => {
    if (said === undefined) return null;
    // As a BigInt: numbers are bound as REAL.
    return typeof said === 'string' ? said : BigInt(said);
  };
  const values = last.map((key) => value(rest[key]));
  for (const key of last) delete rest[key];
  const others = spelt(rest, '_');
  const json = others.length ? [JSON.stringify(Object.fromEntries(others))] : [];
  return { name: `synqlite_${name}`, args: [...args, ...values, ...json], seconds: options.wait };
}

/** The arguments of the command. A token is not among them. */
export function commandLine({ words, argv }, options) {
  const flags = spelt(options, '-').flatMap(([key, value]) => {
    if (key === 'policies') return Object.entries(value).flatMap(([k, v]) => ['--policy', `${k}=${v}`]);
    if (value === false) return [];
    return value === true ? [`--${key}`] : [`--${key}=${value}`];
  });
  return [...words, '--json', '--progress', 'none', ...flags, '--', ...argv];
}
