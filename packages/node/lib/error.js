/**
 * The one error of this package. Its text is what the command prints for the same failure, WHAT. HINT; kinds
 * are those of the command, so that a program decides the same way whichever of the two it calls.
 */

export class SynqliteError extends Error {
  constructor(kind, what, hint = null, cause) {
    super(hint ? `${what}. ${hint}` : what, cause === undefined ? undefined : { cause });
    this.name = 'SynqliteError';
    this.kind = kind;
    this.hint = hint;
  }
}
