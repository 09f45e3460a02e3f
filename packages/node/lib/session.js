/**
 * A session does operations on one file, outside of the calling thread. It is closed after any failure: what
 * a failed connection or thread is worth nobody knows, and a new one costs little.
 */
import { CommandSession } from './command.js';
import { choose } from './library.js';
import { check, given, identity } from './operations.js';
import { ThreadSession } from './thread.js';
import { ask } from './token.js';

/** Opens a session; `path` null for an operation that makes its file. */
export async function open(path, library) {
  const chosen = choose(library);
  if (path !== null) identity(path);
  const Session = chosen.name === 'command' ? CommandSession : ThreadSession;
  const session = new Session(chosen, path);
  try {
    await session.open();
    return session;
  } catch (error) {
    await session.close();
    throw error;
  }
}

/** One operation in a session of its own. */
export async function run(operation, options) {
  const { token: asked, ...others } = options ?? {};
  check(operation, asked == null ? others : options);
  const { library, token, ...values } = given(options);
  const said = { ...values, token: await ask(token) };
  const session = await open(operation.path, library);
  try {
    return await session.call(operation, said);
  } finally {
    await session.close();
  }
}
