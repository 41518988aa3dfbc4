import { InvalidInputError } from '../core/errors.ts';
import type { Commit } from './contract.ts';

/** Cheap, and true of hardly any name; the exact test takes several times as long. */
const SUSPECT = /[\0\ud800-\udfff]/;

/** Whether SQL databases take a text as it is: some cut texts off at a NUL, and none has a form for half a surrogate pair. */
export function isBindable(text: string): boolean {
  return !SUSPECT.test(text) || !/\0|\p{Cs}/u.test(text);
}

/** Throws for what only the caller can have got wrong, before anything is written. */
export function checkCommit(commit: Commit): void {
  const { sessionId, checkpoint } = commit;
  if (checkpoint !== undefined && checkpoint.header.sessionId !== sessionId) {
    throw new InvalidInputError(
      `Checkpoint ${checkpoint.header.id} belongs to session "${checkpoint.header.sessionId}", but the commit to "${sessionId}".`,
    );
  }
  checkNames(commit);
}

/** Names become keys of indexes, where one that was cut off would be taken for another. */
function checkNames({ sessionId, checkpoint, effects = [], refs = [] }: Commit): void {
  checkName(sessionId);
  for (const { name, target } of refs) {
    checkName(name);
    checkName(target);
  }
  for (const { branch } of effects) checkName(branch);
  if (checkpoint === undefined) return;
  const { id, branch, type, status, userId, agentId, idempotencyKey } = checkpoint.header;
  for (const name of [id, branch, type, status, userId, agentId, idempotencyKey]) checkName(name);
}

function checkName(name: string | null | undefined): void {
  if (name === undefined || name === null || isBindable(name)) return;
  throw new InvalidInputError(`A name must be well-formed text without NUL characters; found ${JSON.stringify(name)}.`);
}
