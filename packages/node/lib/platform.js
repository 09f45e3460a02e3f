/**
 * Finds the binaries: the environment goes first, then the package of this platform. This package has none
 * itself, so that an installation carries those of its own platform only.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { SynqliteError } from './error.js';

const require = createRequire(import.meta.url);

export const platform = `${process.platform}-${process.arch}`;

const windows = process.platform === 'win32';
const libraries = { darwin: 'synqlite.dylib', win32: 'synqlite.dll' };

/** What the files are called in a platform package. */
export const files = {
  extension: libraries[process.platform] ?? 'synqlite.so',
  command: windows ? 'synqlite.exe' : 'synqlite',
};

/** The path of the `extension` or the `command`; null if there is none. */
export function find(what) {
  const variable = `SYNQLITE_${what.toUpperCase()}`;
  const said = process.env[variable];
  if (said) {
    if (existsSync(said)) return resolve(said);
    const hint = `Correct ${variable}, or unset it`;
    const what = `${variable} names ${said}, which is not there`;
    throw new SynqliteError('refused', what, hint);
  }
  try {
    return require.resolve(`synqlite-${platform}/${files[what]}`);
  } catch {
    return null;
  }
}

/** What to say where there is none. */
export function missing(what) {
  const hint =
    `Install the package synqlite-${platform} if there is one; else build SynQLite for this platform ` +
    'and set SYNQLITE_EXTENSION to its loadable extension, SYNQLITE_COMMAND to its command';
  return new SynqliteError('refused', `SynQLite's ${what} for ${platform} is not installed`, hint);
}

const path = (what) => {
  const found = find(what);
  if (!found) throw missing(what);
  return found;
};

export const extensionPath = () => path('extension');
export const commandPath = () => path('command');
