/**
 * A worker thread as a session: lib/worker.js runs there, on a connection of the program's SQLite library.
 * Every question is answered, also where the thread dies: whoever waits then learns of it.
 */
import { Worker } from 'node:worker_threads';
import { SynqliteError } from './error.js';
import { sqlCall } from './operations.js';

export class ThreadSession {
  #worker;
  #waiting = new Map();
  #next = 0;
  #gone;

  constructor(library, path) {
    // Flags of the program, such as --input-type, are for its own modules.
    const options = { workerData: { library, path }, execArgv: [] };
    this.#worker = new Worker(new URL('./worker.js', import.meta.url), options);
    this.#worker.on('message', ({ id, ...answer }) => {
      this.#waiting.get(id)(answer);
      this.#waiting.delete(id);
    });
    let died = '';
    this.#worker.on('error', (error) => { died = `: ${error.message}`; });
    this.#gone = new Promise((gone) => {
      this.#worker.on('exit', () => {
        this.#worker = null;
        const what = `the thread that works on ${path} ended${died}`;
        for (const answered of this.#waiting.values()) answered({ failure: { kind: 'defect', what } });
        gone();
      });
    });
  }

  async #ask(method, value) {
    if (!this.#worker) throw new SynqliteError('defect', 'the session is closed');
    const { value: result, failure } = await new Promise((answered) => {
      const id = this.#next++;
      this.#waiting.set(id, answered);
      this.#worker.postMessage({ id, method, value });
    });
    if (failure) throw new SynqliteError(failure.kind, failure.what, failure.hint);
    return result;
  }

  open() {
    return this.#ask('open');
  }

  /** Waits so many milliseconds at most: lib/worker.js says for what. */
  wait(ms, remote = null, token) {
    return this.#ask('wait', { ms, remote, token });
  }

  /** Differs from an earlier one if something was committed since. */
  mark() {
    return this.#ask('mark');
  }

  call(operation, options) {
    return this.#ask('call', sqlCall(operation, options));
  }

  async close() {
    this.#worker?.postMessage({ method: 'close' });
    await this.#gone;
  }
}
