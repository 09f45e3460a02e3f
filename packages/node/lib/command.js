/**
 * The command as a session: each operation is a process, which shares no locks with this one. A token goes by
 * the environment, or by the input if it is to be kept, because every user of a machine can read arguments.
 */
import { execFile } from 'node:child_process';
import { statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { SynqliteError } from './error.js';
import { commandLine } from './operations.js';

const LARGEST = 1 << 30;

function lastChange(file) {
  const found = statSync(file, { throwIfNoEntry: false, bigint: true });
  return found ? `${found.mtimeNs}:${found.size}` : 'none';
}

/** For the command every other connection is another program's, those of this program too. */
function advice({ code, hint, object }) {
  const own = code === 'locked' && object && hint;
  return own ? `${hint}; if it is this program, commit its transaction first` : hint;
}

/** What the file system says of the last commit to a database. */
const lastCommit = (path) => `${lastChange(path)} ${lastChange(`${path}-wal`)}`;

export class CommandSession {
  constructor({ command }, path) {
    this.command = command;
    this.path = path;
  }

  async open() {}

  /** Waits for a commit, by what the file system says: nothing is opened. Of remotes it knows nothing. */
  async wait(ms, _remote, _token, poll = 50) {
    const end = Date.now() + ms;
    for (;;) {
      const now = lastCommit(this.path);
      if (now !== this.seen) {
        this.seen = now;
        return { woke: 'commit' };
      }
      const left = end - Date.now();
      if (left <= 0) return { woke: 'time' };
      await sleep(Math.min(poll, left));
    }
  }

  /** Differs from an earlier one if something was committed since. */
  async mark() {
    return lastCommit(this.path);
  }

  async call(operation, options) {
    const { token, ...others } = options;
    const kept = operation.keeps ? token : undefined;
    const env = token && !kept ? { ...process.env, SYNQLITE_TOKEN: token } : process.env;
    const argv = commandLine(operation, kept ? { ...others, tokenFile: '-' } : others);
    const { error, out, err } = await new Promise((ended) => {
      const how = { env, maxBuffer: LARGEST };
      const child = execFile(this.command, argv, how, (error, out, err) => ended({ error, out, err }));
      // Whoever ended before reading it says why.
      child.stdin?.on('error', () => {});
      child.stdin?.end(kept || '');
    });
    let document;
    try {
      document = JSON.parse(out);
    } catch {
      const why = err.trim() || error?.message || 'it printed nothing';
      const hint = 'Check that it is the command of this release, and that it can run here';
      throw new SynqliteError('defect', `${this.command} gave no answer: ${why}`, hint);
    }
    const failure = document.error;
    if (failure) throw new SynqliteError(failure.code, failure.message, advice(failure));
    return document;
  }

  async close() {}
}
