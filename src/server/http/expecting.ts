import type { ChunkStorage, Commit, RefChange } from '../../storage/contract.ts';
import { isRefused } from '../../storage/refusal.ts';
import { type SessionRefs, taggedRefs } from '../handlers/session-refs.ts';
import { HttpError } from './problem.ts';

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
  return new Proxy(storage, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      if (key === 'commit') return commit;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** What the commit sets without a word about what was there is expected to be what it was, too. */
function withChecks(commit: Commit, checks: readonly RefChange[]): Commit {
  const own = commit.refs ?? [];
  const find = (list: readonly RefChange[], { kind, name }: RefChange) =>
    list.find((each) => each.kind === kind && each.name === name);
  const changed = own.map((change) => ({ ...find(checks, change), ...change }));
  return { ...commit, refs: [...changed, ...checks.filter((check) => find(own, check) === undefined)] };
}
