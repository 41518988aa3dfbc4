import { StorageError } from '../core/errors.ts';
import type { CheckpointId } from '../core/record/id.ts';
import type { Chunk, Digest } from '../core/tree/chunk.ts';
import type { CheckpointRowWithRoot, ChunkStorage, Commit, CommitResult } from '../storage/contract.ts';

/**
 * `fails`: rejects and writes nothing. `loses_reply`: writes and then rejects, as when the answer does not arrive; the error's
 * details say `outcome: 'unknown'`. `loses_request`: the same error, but nothing was written.
 */
type CommitFault = 'fails' | 'loses_reply' | 'loses_request';

/** `altered`: one character of the text differs. `missing`: it is not there. */
type ChunkFault = 'altered' | 'missing';

/** The methods whose calls can be held up. */
type StorageMethod = Exclude<keyof ChunkStorage, 'kind' | 'limits'>;

/** What goes wrong. It is read at every call, so that a test may change it between calls. */
export type FaultPlan = {
  /** Faults by number of the commit; the first is 1. */
  commits?: { readonly [nth: number]: CommitFault };
  /** Faults of chunks by digest. */
  chunks?: { readonly [digest: Digest]: ChunkFault };
  /** Roots that come back with one character changed. */
  alteredRoots?: readonly CheckpointId[];
  /** Awaited before every call reaches the storage: hold a call up by a promise. `nth` counts the calls of the method from 1. */
  delay?: (method: StorageMethod, nth: number) => Promise<void> | undefined;
};

/** Never held up: they are told of no call. */
const UNPLANNED: ReadonlySet<string | symbol> = new Set(['now', 'watch', Symbol.asyncDispose]);

/** A storage that fails as planned, around a storage that does not. Everything unplanned passes through. */
export function faultyStorage(storage: ChunkStorage, plan: FaultPlan): ChunkStorage {
  const calls = new Map<StorageMethod, number>();
  /** Counts the call, and waits as long as the plan wants. */
  const enter = async (method: StorageMethod): Promise<number> => {
    const nth = (calls.get(method) ?? 0) + 1;
    calls.set(method, nth);
    await plan.delay?.(method, nth);
    return nth;
  };
  const faulty = faultyMethods(storage, plan);
  return new Proxy(storage, {
    get: (inner, key) => {
      const value: unknown = Reflect.get(inner, key);
      if (typeof value !== 'function') return value;
      if (UNPLANNED.has(key)) return value.bind(inner) as unknown;
      return async (...given: unknown[]): Promise<unknown> => {
        const nth = await enter(key as StorageMethod);
        if (Object.hasOwn(faulty, key)) return faulty[key as keyof typeof faulty](given[0] as never, nth);
        return Reflect.apply(value, inner, given) as unknown;
      };
    },
  });
}

/** The methods that a plan changes. */
function faultyMethods(inner: ChunkStorage, plan: FaultPlan) {
  const damage = (chunk: Chunk): Chunk | undefined => {
    const fault = plan.chunks?.[chunk.digest];
    if (fault === undefined) return chunk;
    return fault === 'missing' ? undefined : { ...chunk, text: alterText(chunk.text) };
  };
  return {
    async commit(commit: Commit, nth: number): Promise<CommitResult> {
      const fault = plan.commits?.[nth];
      if (fault === 'fails') throw new StorageError(`Commit ${nth} failed as planned; nothing was written.`);
      if (fault === 'loses_request') throw lostAnswer(nth);
      const result = await inner.commit(commit);
      if (fault === 'loses_reply') throw lostAnswer(nth);
      return result;
    },
    async readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]> {
      return (await inner.readChunks(digests)).map((chunk) => chunk && damage(chunk));
    },
    async readReachable(digests: readonly Digest[]): Promise<Chunk[]> {
      return (await inner.readReachable(digests)).map(damage).filter((chunk) => chunk !== undefined);
    },
    async readCheckpoint(id: CheckpointId): Promise<CheckpointRowWithRoot | undefined> {
      const row = await inner.readCheckpoint(id);
      if (row?.root === undefined || !plan.alteredRoots?.includes(id)) return row;
      return { ...row, root: { ...row.root, text: alterText(row.root.text) } };
    },
  };
}

/** All that a caller can know when the connection breaks. */
function lostAnswer(nth: number): StorageError {
  return new StorageError(`The answer to commit ${nth} was lost as planned; it may be stored or not.`, {
    details: { outcome: 'unknown' },
  });
}

/** Changes the character in the middle to another digit, so that the text often still parses. */
function alterText(text: string): string {
  const middle = Math.floor(text.length / 2);
  const replacement = text[middle] === '7' ? '8' : '7';
  return text.slice(0, middle) + replacement + text.slice(middle + 1);
}
