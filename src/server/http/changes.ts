import { ConflictError } from '../../core/errors.ts';
import { keepRecent } from '../../core/keep-recent.ts';
import { Serial } from '../../core/time/serial.ts';
import type { ChunkStorage, Commit, RefChange } from '../../storage/contract.ts';
import { isRefused } from '../../storage/refusal.ts';
import { wrapStorage } from '../../storage/wrap.ts';
import { type SessionRefs, taggedRefs } from '../handlers/session-refs.ts';
import { HttpError } from './problem.ts';

/** A change that was asked for. */
export type ChangeRequest = {
  readonly idempotencyKey: string | undefined;
  /** What was asked, to tell a repetition from another request with the same key. */
  readonly fingerprint: string;
  /** Whether others need not wait for it: an import reads as slowly as it is sent, and holds its session by itself. */
  readonly isApart: boolean;
};

type Known = { readonly fingerprint: string; readonly response: Promise<Response> };

/** Keys are remembered for as many changes as this. */
const MAX_KEYS = 1_000;

/** Makes changes one after the other, each key once. */
export class Changes {
  readonly #known = new Map<string, Known>();
  readonly #line = new Serial();

  async make(
    { idempotencyKey: key, fingerprint, isApart }: ChangeRequest,
    change: () => Promise<Response>,
  ): Promise<Response> {
    const known = key === undefined ? undefined : this.#known.get(key);
    if (known !== undefined && known.fingerprint !== fingerprint)
      throw new ConflictError(`The Idempotency-Key "${key}" was used for another request. Use a new one.`);
    if (known !== undefined) return (await known.response).clone();
    const response = isApart ? change() : this.#line.run(change);
    if (key !== undefined) {
      keepRecent(this.#known, [key, { fingerprint, response }], MAX_KEYS);
      response.catch(() => this.#known.delete(key)); // what failed may be tried again with the same key
    }
    return (await response).clone();
  }
}

/** The answer to a change of something that is no longer what the client saw. */
export function staleError(): HttpError {
  return new HttpError(412, 'CONFLICT', { message: 'The session changed since it was read. Read it again and retry.' });
}

/**
 * The same storage, but its next commit to a session checks in the same step that the names of the session are what they were: whatever
 * process changed one meanwhile, the change is refused.
 */
export function expecting(storage: ChunkStorage, session: SessionRefs): ChunkStorage {
  let refs: readonly RefChange[] = taggedRefs(session).map(({ kind, name, target }) => ({
    kind,
    name,
    target,
    expect: target,
  }));
  const commit = async (given: Commit) => {
    if (given.sessionId !== session.sessionId) return storage.commit(given);
    const checked = withChecks(given, refs);
    try {
      const result = await storage.commit(checked);
      refs = []; // what comes after it is part of the same change
      return result;
    } catch (error) {
      throw isRefused(error, 'moved') && typeof error.details.expected === 'string' ? staleError() : error;
    }
  };
  return wrapStorage(storage, { commit });
}

/** What the commit sets without a word about what was there is expected to be what it was, too. */
function withChecks(commit: Commit, checks: readonly RefChange[]): Commit {
  const own = commit.refs ?? [];
  const find = (list: readonly RefChange[], { kind, name }: RefChange) =>
    list.find((each) => each.kind === kind && each.name === name);
  const changed = own.map((change) => ({ ...find(checks, change), ...change }));
  return { ...commit, refs: [...changed, ...checks.filter((check) => find(own, check) === undefined)] };
}
