/**
 * Synchronizes a file again and again. Three things always hold: the next round has a time at which it comes,
 * whatever the last one did; a failure is in `state` before the next round begins; nothing is thrown into the
 * program, and listeners run on their own, so that one that throws does not stop the rounds.
 */
import { EventEmitter, on } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { SynqliteError } from './error.js';
import { check, given, identity, operations } from './operations.js';
import { open } from './session.js';
import { ask } from './token.js';

/** Milliseconds of a wait, after which it looks whether it is to stop. */
export const SLICE = 250;

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 60_000;

/** The pause after so many failures: it doubles, and chance keeps many sites from coming at once. */
export function pauseAfter(failures, chance = Math.random()) {
  return Math.min(FIRST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE) * (0.5 + chance / 2);
}

/** Whether rows show something else since a merge. */
const showsElse = ({ merged }) => merged.inserted + merged.updated + merged.deleted > 0;

/** Changes that the remote does not have yet. What a remote without a name lacks only its own rounds know. */
function waiting(status, remote) {
  const named = status.remotes.find(({ name, url }) => name === remote || url === remote);
  return status.unfolded + (named?.unpushed ?? 0);
}

export class Watch extends EventEmitter {
  #stopping = new AbortController();
  #failures = 0;
  #ended;
  #state = { online: false, lastSync: null, pending: null, error: null };

  constructor(path, remote, options) {
    super();
    this.#ended = this.#run(path, remote, options);
  }

  get state() {
    return { ...this.#state };
  }

  /** Ends after the round that is under way. */
  async stop() {
    this.#stopping.abort();
    await this.#ended;
  }

  /** The results of the rounds to come. Whoever leaves the loop stops the watch. */
  async *[Symbol.asyncIterator]() {
    try {
      if (this.#stopping.signal.aborted) return;
      for await (const [result] of on(this, 'sync', { close: ['stop'] })) yield result;
    } finally {
      await this.stop();
    }
  }

  #say(...event) {
    process.nextTick(() => this.emit(...event));
  }

  #become(change) {
    const before = this.#state;
    this.#state = { ...before, ...change };
    const same = Object.keys(change).every((key) => before[key] === change[key]);
    if (!same) this.#say('state', this.state);
  }

  #pause(ms) {
    return sleep(ms, undefined, { signal: this.#stopping.signal }).catch(() => {});
  }

  async #run(path, remote, options) {
    // Not within the constructor: who makes the watch has not begun to listen there.
    await null;
    while (!this.#stopping.signal.aborted) {
      try {
        await this.#follow(path, remote, options);
      } catch (error) {
        this.#failures += 1;
        const failure = error instanceof SynqliteError
          ? error
          : new SynqliteError('defect', `the watch failed: ${error?.message ?? error}`, null, error);
        this.#become({ error: failure, ...(failure.kind === 'network' && { online: false }) });
        this.#say('failure', failure);
        await this.#pause(pauseAfter(this.#failures));
      }
    }
    this.#say('stop');
    // Whoever waits for the end hears of it after those who listen.
    await new Promise((told) => { process.nextTick(told); });
  }

  /** One round. One that fails may have merged before it did, and answers nothing: the database tells. */
  async #round(session, sync, file, options) {
    // A file that was replaced must not be asked: SQLite would take the journal of the other for its own.
    const mark = async () => (identity(sync.path) === file ? session.mark() : null);
    const before = await mark().catch(() => null);
    try {
      return await session.call(sync, options);
    } catch (error) {
      const after = await mark().catch(() => null);
      // What is not known may be a change.
      if (before === null || after !== before) this.#say('change');
      throw error;
    }
  }

  /** Rounds on one file, until it is another file or the watch stops. */
  async #follow(path, remote, said) {
    const sync = operations.sync(path, remote);
    const status = operations.status(path);
    const to = sync.args[0] ?? 'origin';
    check(sync, said ?? {}, ['interval', 'poll']);
    const { library, interval = 5000, poll, token: asked, ...options } = given(said);
    for (const [name, ms] of Object.entries({ interval, poll: poll ?? 1 })) {
      if (ms > 0) continue;
      throw new SynqliteError('usage', `${name} is ${ms}`, 'Give milliseconds, above 0');
    }
    const file = identity(sync.path);
    const session = await open(sync.path, library);
    try {
      let [woke, due, token] = ['commit', 0];
      while (!this.#stopping.signal.aborted && identity(sync.path) === file) {
        if (woke !== 'time') {
          this.#become({ pending: waiting(await session.call(status, {}), to) });
          if (woke === 'remote' || this.#state.pending > 0) due = 0;
        }
        if (Date.now() >= due) {
          token = await ask(asked);
          const result = await this.#round(session, sync, file, { ...options, token });
          due = Date.now() + interval;
          this.#failures = 0;
          // What is written meanwhile wakes the wait.
          this.#become({ online: true, lastSync: new Date(), pending: 0, error: null });
          this.#say('sync', result);
          if (showsElse(result)) this.#say('change');
        }
        const slice = Math.max(0, Math.min(SLICE, due - Date.now()));
        ({ woke } = await session.wait(slice, to, token, poll));
      }
    } finally {
      await session.close();
    }
  }
}

export const watch = (path, remote, options) => new Watch(path, remote, options);
