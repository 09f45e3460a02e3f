/**
 * Chooses which SQLite does the work: the one that the program has loaded, or a process of its own.
 *
 * Two SQLite libraries in one process drop each other's POSIX locks, and commits are lost that were reported
 * as done. So a library that the program has not loaded is no first choice, and where several are loaded
 * nothing tells which of them has the file open: then the command does the work, whose process shares no
 * locks with this one.
 */
import { createRequire } from 'node:module';
import { SynqliteError } from './error.js';
import { find, missing } from './platform.js';

const require = createRequire(import.meta.url);
const ENTRY = '/better-sqlite3/lib/index.js';

/** The SQLite libraries that are loaded in this thread: copies of better-sqlite3, node:sqlite, and others. */
export function loaded(files = Object.keys(require.cache)) {
  const betters = files.filter((file) => file.replaceAll('\\', '/').endsWith(ENTRY));
  const homes = betters.map((file) => file.slice(0, -'lib/index.js'.length));
  const others = files.filter((file) => {
    const name = file.slice(Math.max(0, file.lastIndexOf('node_modules')));
    return /(sqlite|libsql).*\.node$/i.test(name) && !homes.some((home) => file.startsWith(home));
  });
  // Where the list is missing, node:sqlite does not count as loaded, and the command does the work.
  const builtin = process.moduleLoadList?.includes('NativeModule sqlite') ?? false;
  return { betters, builtin, others };
}

/** Whether node:sqlite is there and loads extensions: it does from 22.13 on, and from 23.5 on. */
function builtinLoads() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  return major > 23 || (major === 23 && minor >= 5) || (major === 22 && minor >= 13);
}

function installed() {
  try {
    return require.resolve('better-sqlite3');
  } catch {
    return null;
  }
}

const better = (module) => (module ? { name: 'better-sqlite3', module } : null);
const builtin = () => (builtinLoads() ? { name: 'node:sqlite' } : null);

function named(name, seen) {
  switch (name) {
    case 'better-sqlite3':
      return better(seen.betters[0] ?? installed());
    case 'node:sqlite':
      return builtin();
    default: {
      const hint = 'Known are better-sqlite3, node:sqlite and command';
      throw new SynqliteError('usage', `there is no library ${name}`, hint);
    }
  }
}

/** What does the work, with the path of its binary. `name`: what the caller wants, if anything. */
export function choose(name, seen = loaded()) {
  const [extension, command] = [find('extension'), find('command')];
  if (name === 'command') {
    if (!command) throw missing('command');
    return { name, command };
  }
  if (name !== undefined) {
    const library = named(name, seen);
    if (!extension) throw missing('extension');
    if (library) return { ...library, extension };
    const hint = 'Name another library, or leave the option out';
    throw new SynqliteError('refused', `${name} is not there, or does not load extensions`, hint);
  }
  const count = seen.betters.length + seen.others.length + (seen.builtin ? 1 : 0);
  const only = count === 1 && (seen.builtin ? builtin() : better(seen.betters[0]));
  if (only && extension) return { ...only, extension };
  if (command) return { name: 'command', command };
  // Nothing is loaded yet: what is installed is what the program will load, if it loads any.
  const likely = count === 0 && (better(installed()) ?? builtin());
  if (likely && extension) return { ...likely, extension };
  throw missing(extension ? 'command' : 'extension');
}
