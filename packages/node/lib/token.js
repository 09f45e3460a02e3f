/**
 * Tokens that are functions are asked anew for each attempt, and in bounded time: one that never answers
 * would stop a watch without a word.
 */
import { SynqliteError } from './error.js';

const SECONDS = 60;

const hint = 'Let it return the token as a text, or undefined for none';

/** The token as a text; undefined if there is none. */
export async function ask(token) {
  if (typeof token !== 'function') return checked(token);
  let timer;
  const late = new Promise((_, reject) => {
    const what = `the function for the token has not answered for ${SECONDS} s`;
    timer = setTimeout(() => reject(new SynqliteError('refused', what, hint)), SECONDS * 1000);
  });
  try {
    return checked(await Promise.race([token(), late]));
  } catch (cause) {
    if (cause instanceof SynqliteError) throw cause;
    const what = `the function for the token failed: ${cause?.message ?? cause}`;
    throw new SynqliteError('refused', what, null, cause);
  } finally {
    clearTimeout(timer);
  }
}

function checked(token) {
  if (token == null) return undefined;
  if (typeof token === 'string' && token !== '') return token;
  throw new SynqliteError('usage', `the token is ${token === '' ? 'empty' : typeof token}`, hint);
}
