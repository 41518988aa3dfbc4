import { CorruptError } from '../core/errors.ts';
import { groupBy } from '../core/group-by.ts';
import { digestText } from '../core/tree/chunk.ts';
import type { DuePage, Ref } from './contract.ts';

type RefContent = Omit<Ref, 'check'>;

/** Sixteen hexadecimal characters that change if any part of the ref does. */
export function refCheck({ sessionId, kind, name, target }: RefContent): string {
  return digestText(JSON.stringify([sessionId, kind, name, target])).slice(0, 16);
}

/** Completes a ref with its check. */
export function createRef(content: RefContent): Ref {
  return { ...content, check: refCheck(content) };
}

/** Throws a CorruptError if the ref is not what was written. */
export function checkRef(ref: Ref): Ref {
  if (ref.check !== refCheck(ref)) {
    throw new CorruptError(`The ${ref.kind} "${ref.name}" of session "${ref.sessionId}" is damaged.`, {
      details: { sessionId: ref.sessionId, kind: ref.kind, name: ref.name },
    });
  }
  return ref;
}

/** Whether a ref of this kind keeps what it points at from being deleted. */
export function isProtecting(kind: string): boolean {
  return kind === 'branch' || kind === 'tag' || kind === 'pin';
}

type Name = Pick<Ref, 'kind' | 'name' | 'target'>;

/** What points at each checkpoint. The refs of a session are read once, however many of its checkpoints are to be deleted. */
export class Holders<Session, Held extends Name> {
  readonly #readRefs: (session: Session) => Iterable<Held>;
  readonly #sessions = new Map<Session, Map<string, Held[]>>();

  constructor(readRefs: (session: Session) => Iterable<Held>) {
    this.#readRefs = readRefs;
  }

  /**
   * The refs that go with a checkpoint when it is deleted, that of the log which has its name too; undefined if one of them protects it.
   * With `force` nothing protects.
   */
  release(session: Session, id: string, force: boolean): readonly Held[] | undefined {
    const byId =
      this.#sessions.get(session) ??
      groupBy(this.#readRefs(session), ({ kind, name, target }) => (kind === 'log' ? name : target));
    this.#sessions.set(session, byId);
    const holders = byId.get(id) ?? [];
    return !force && holders.some(({ kind }) => isProtecting(kind)) ? undefined : holders;
  }
}

/** Whether the refs of a session are exactly those expected, in whatever order. */
export function areSameRefs(found: readonly Name[], expected: readonly Name[]): boolean {
  const keyOf = ({ kind, name, target }: Name) => JSON.stringify([kind, name, target]);
  const wanted = new Set(expected.map(keyOf));
  return found.length === wanted.size && found.every((ref) => wanted.has(keyOf(ref)));
}

/** Answers `readDue` for a storage that has no index for it: from all refs of kind `due`. */
export function selectDue(refs: readonly Ref[], { before, limit }: DuePage): Ref[] {
  return refs
    .filter(({ kind, target }) => kind === 'due' && target < before)
    .sort((a, b) => (a.target < b.target ? -1 : 1))
    .slice(0, limit);
}
