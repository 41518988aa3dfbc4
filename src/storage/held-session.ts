import type { CheckpointId, SessionId } from '../core/record/id.ts';
import type { Chunk, ChunkContent, Digest } from '../core/tree/chunk.ts';
import type { Commit, DuePage, EffectFilter, EffectRow, Ref, RefChange, RefFilter } from './contract.ts';
import { selectEffects, selectRefs } from './query.ts';
import { readReachableByLevel } from './reachable.ts';
import { createRef, selectDue } from './ref.ts';
import { checkExpectations } from './refusal.ts';

/** A frozen copy can be handed out again and again without being copied again. */
export const freezeContent = ({ text, refs }: ChunkContent): ChunkContent =>
  Object.freeze({ text, refs: Object.freeze([...refs]) });

/** Refs, effects and keys of one session in memory, as commits and deletions left them. */
export class HeldSession {
  readonly sessionId: SessionId;
  readonly #refs = new Map<string, Ref>();
  readonly #effects = new Map<string, EffectRow>();
  readonly #keys = new Map<string, CheckpointId>();

  constructor(sessionId: SessionId) {
    this.sessionId = sessionId;
  }

  get refs(): Ref[] {
    return [...this.#refs.values()];
  }

  get effects(): EffectRow[] {
    return [...this.#effects.values()];
  }

  changeRef({ kind, name, target }: Pick<RefChange, 'kind' | 'name' | 'target'>): void {
    const { sessionId } = this;
    if (target === null) this.#refs.delete(refKey({ kind, name }));
    else this.#refs.set(refKey({ kind, name }), Object.freeze(createRef({ sessionId, kind, name, target })));
  }

  findEffect(place: EffectPlace): EffectRow | undefined {
    return this.#effects.get(effectKey(place));
  }

  setEffect({ branch, ordinal, body, digest, result }: Omit<EffectRow, 'sessionId'>): void {
    const { sessionId } = this;
    const row = { sessionId, branch, ordinal, body, digest, ...(result && { result: freezeContent(result) }) };
    this.#effects.set(effectKey(row), Object.freeze(row));
  }

  removeEffect(place: EffectPlace): void {
    this.#effects.delete(effectKey(place));
  }

  /** The places of what was filed under a checkpoint, which goes with it. */
  placesFiledUnder(id: CheckpointId): EffectPlace[] {
    const count = Number(this.#refs.get(refKey({ kind: 'log', name: id }))?.target ?? 0);
    return Array.from({ length: count }, (_, ordinal) => ({ branch: id, ordinal }));
  }

  /** Removes what goes with a checkpoint that is deleted. */
  release(id: CheckpointId, refs: readonly Ref[]): void {
    for (const place of this.placesFiledUnder(id)) this.removeEffect(place);
    for (const { kind, name } of refs) this.changeRef({ kind, name, target: null });
  }

  useKey(key: string | undefined, id: CheckpointId): void {
    if (key !== undefined) this.#keys.set(key, id);
  }

  freeKey(key: string | undefined): void {
    if (key !== undefined) this.#keys.delete(key);
  }

  /** The checkpoint that an earlier commit with the same idempotency key stored. */
  findEarlier({ checkpoint }: Commit): CheckpointId | undefined {
    const key = checkpoint?.header.idempotencyKey;
    return key === undefined ? undefined : this.#keys.get(key);
  }

  /** Throws unless every ref and effect is as a commit expects. */
  checkExpectations(commit: Commit): void {
    checkExpectations(
      commit,
      (change) => this.#refs.get(refKey(change))?.target,
      (effect) => this.findEffect(effect)?.digest,
    );
  }
}

type EffectPlace = Pick<EffectRow, 'branch' | 'ordinal'>;

/** What an effect is found by in its session. */
export const effectKey = ({ branch, ordinal }: EffectPlace): string => `${ordinal} ${branch}`;

/** Names the kind and the name of a ref: the same ref has the same key in every storage. */
export const refKey = ({ kind, name }: Pick<Ref, 'kind' | 'name'>): string => `${kind} ${name}`;

/** What a storage that holds sessions in memory answers from them. */
export abstract class HeldStorage {
  /** The session, which must be whole, or all that are, in the order of their ids. @internal */
  protected abstract wholeSessions(sessionId?: string): Promise<readonly HeldSession[]>;

  abstract readChunks(digests: readonly Digest[]): Promise<(Chunk | undefined)[]>;

  async readReachable(digests: readonly Digest[]): Promise<Chunk[]> {
    return readReachableByLevel((wanted) => this.readChunks(wanted), digests);
  }

  async readRefs(filter: RefFilter = {}): Promise<Ref[]> {
    // Copied at once, so that all of it shows the same moment.
    const refs = (await this.wholeSessions(filter.sessionId)).map((session) => session.refs);
    return selectRefs(refs, filter);
  }

  async readDue(page: DuePage): Promise<Ref[]> {
    return selectDue(await this.readRefs({ kind: 'due' }), page);
  }

  async readEffects(filter: EffectFilter): Promise<EffectRow[]> {
    const sessions = await this.wholeSessions(filter.sessionId);
    return selectEffects(
      sessions.flatMap((session) => session.effects),
      filter,
    );
  }
}
