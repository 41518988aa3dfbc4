import type { EncodedState } from '../../core/codec/state-codec.ts';
import { diffStates } from '../../core/diff/index.ts';
import { ConflictError, hasErrorCode, InvalidInputError, NotFoundError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { Serial } from '../../core/time/serial.ts';
import { type Chunk, type Digest, digestText } from '../../core/tree/chunk.ts';
import type { Engine, ShadowHolder } from '../../manager/engine/engine.ts';
import { settleImport } from '../../manager/engine/import-claim.ts';
import { loadState } from '../../manager/engine/loading.ts';
import { findCurrentBranch } from '../../manager/engine/records.ts';
import { describeCheckpoint } from '../../manager/engine/save-options.ts';
import type { WritePlace, Writer } from '../../manager/engine/writer.ts';
import { deleteSession } from '../../manager/retention/forgetting.ts';
import { checkNewBranch, parseRefName } from '../../manager/revision/ref-name.ts';
import { isRefused } from '../../storage/refusal.ts';
import {
  applyAppends,
  applyEdit,
  cannotFork,
  copyValue,
  emptyTranscript,
  ItemPlaces,
  isSameItems,
  itemsFrom,
  parseTranscript,
  type TranscriptEdit,
  type TranscriptState,
  type TranscriptView,
  viewOf,
} from './transcript-state.ts';
import { type BranchHead, findTurn, Turn } from './turn.ts';

/** Which transcript: whose items, in which session. Without a branch it follows the session's current one, as a rewind sets it. */
export type TranscriptPlace = {
  readonly adapter: string;
  readonly sessionId: SessionId;
  readonly branch?: string | undefined;
  /** The field that items are found by; default `id`. */
  readonly idField?: string;
};

/** An id that stands for one change: repeated with it the change is made once, and another change is refused. */
export type OperationOptions = { readonly operationId?: string | undefined };

/** What is to be kept beside the items once others are added; undefined for what is there. */
type AddOptions<Item> = OperationOptions & { readonly extra?: (before: TranscriptView<Item>) => unknown };

/** One change: what it is, so that it is known again by its operation id, and what it makes of the transcript as that is then; undefined for nothing. */
export type TranscriptChange<Item> = OperationOptions & {
  readonly trigger: string;
  readonly about?: unknown;
  readonly edit: (view: TranscriptView<Item>) => TranscriptEdit | undefined;
};

/** What became of a change: `repeated` if its operation id was used for it before. */
export type ChangeOutcome = {
  readonly status: 'stored' | 'unchanged' | 'repeated';
  readonly head: Checkpoint | undefined;
};

type Tip = {
  readonly branch: string;
  readonly head: Checkpoint | undefined;
  readonly state: TranscriptState;
  readonly encoded: EncodedState | undefined;
};

/**
 * A list of items in a session, each change one checkpoint. Changes of one object are made in the order of the calls; those of several
 * processes one after the other, and none is lost. What is handed out and taken in are copies.
 */
export class Transcript<Item = unknown> implements ShadowHolder {
  readonly sessionId: SessionId;
  readonly #engine: Engine;
  readonly #adapter: string;
  /** Absent if it follows the session's current one. */
  readonly branch: string | undefined;
  readonly #serial = new Serial();
  #tip: Tip | undefined;
  /** Chunks that no commit has brought for certain: the next one may refer to them, so it brings them. */
  readonly #unstored = new Map<Digest, Chunk>();
  readonly #places: ItemPlaces;
  #waiting = 0;

  constructor(engine: Engine, { adapter, sessionId, branch, idField = 'id' }: TranscriptPlace) {
    this.#engine = engine;
    this.#adapter = adapter;
    this.sessionId = sessionId;
    this.branch = branch;
    this.#places = new ItemPlaces(idField);
  }

  get isIdle(): boolean {
    return this.#waiting === 0;
  }

  /** The items, or the last ones of them, oldest first. */
  async load(limit?: number): Promise<Item[]> {
    const view = await this.read();
    return limit === undefined ? view.itemsFrom(0) : view.itemsFrom(Math.max(0, view.length - Math.max(0, limit)));
  }

  /** The transcript as it is now. */
  read(): Promise<TranscriptView<Item>> {
    return this.alone(async () => this.#view(await this.#refresh()));
  }

  /** The checkpoint that the transcript is at, read without its items; undefined before the first. */
  async head(): Promise<Checkpoint | undefined> {
    const { headId } = await this.#findHead();
    return headId === undefined ? undefined : (await this.#engine.repository.open(headId)).checkpoint;
  }

  /** Adds items at the end. None of them is saved if one cannot be. */
  async append(items: readonly Item[], { operationId, extra }: AddOptions<Item> = {}): Promise<void> {
    const add = this.take(items);
    const isNothing = add.length === 0 && operationId === undefined;
    const edit = (view: TranscriptView<Item>) =>
      isNothing ? undefined : { keep: view.length, add, extra: extra?.(view) };
    await this.change({ operationId, trigger: 'items_appended', about: ['append', add], edit });
  }

  /** Replaces the last items, if they are still the expected ones; throws a ConflictError otherwise. */
  async replaceSuffix(
    { expected, replacement }: { readonly expected: readonly Item[]; readonly replacement: readonly Item[] },
    { operationId, extra }: AddOptions<Item> = {},
  ): Promise<void> {
    const [suffix, add] = [this.take(expected), this.take(replacement)];
    const edit = (view: TranscriptView<Item>): TranscriptEdit => {
      const keep = view.length - suffix.length;
      if (keep >= 0 && isSameItems(view.itemsFrom(keep), suffix)) return { keep, add, extra: extra?.(view) };
      throw new ConflictError(
        `The last ${suffix.length} items of session "${this.sessionId}" are not the expected ones; nothing was changed. Read them again and retry.`,
        { details: { sessionId: this.sessionId } },
      );
    };
    await this.change({ operationId, trigger: 'items_replaced', about: ['replace', suffix, add], edit });
  }

  /** Removes the last item and returns it; undefined if there is none. */
  async pop(options: OperationOptions = {}): Promise<Item | undefined> {
    let popped: Item | undefined;
    const edit = (view: TranscriptView<Item>): TranscriptEdit | undefined => {
      [popped] = view.itemsFrom(Math.max(0, view.length - 1));
      return view.length === 0 ? undefined : { keep: view.length - 1, add: [] };
    };
    const { status, head } = await this.change({ ...options, trigger: 'item_popped', about: ['pop'], edit });
    return status === 'repeated' ? this.#lastBefore(head) : popped;
  }

  /** Removes all items and what is beside them; those before stay in the history. */
  async clear(options: OperationOptions = {}): Promise<void> {
    const edit = ({ length }: { length: number }) => (length === 0 ? undefined : { keep: 0, add: [], extra: null });
    await this.change({ ...options, trigger: 'items_cleared', about: ['clear'], edit });
  }

  /** Deletes the session with its whole history; returns whether it was there. */
  delete(): Promise<boolean> {
    return this.alone(() => {
      this.forgetShadow();
      return deleteSession(this.#engine, this.sessionId);
    });
  }

  /** Makes a branch that holds the first items, by default all; the items themselves are shared. */
  async fork(
    { branch, at }: { readonly branch: string; readonly at?: number | undefined },
    options: OperationOptions = {},
  ): Promise<void> {
    const begun = { branch: parseRefName(branch, 'A branch name'), expect: null, refs: checkNewBranch(branch) };
    await this.#write(options.operationId, async (writer) => {
      const tip = await this.#refresh();
      const { length } = tip.state.items;
      const keep = at ?? length;
      if (tip.head === undefined || keep > length || keep < 0) throw cannotFork(this.sessionId, length, keep);
      const change = { ...options, trigger: 'transcript_forked', about: ['fork', branch, at ?? null] };
      const place = { sessionId: this.sessionId, parent: tip.head, ...begun };
      await this.#store(writer, { tip, place, change }, { keep, add: [] });
      this.forgetShadow(); // what it knows went on into the fork
    });
  }

  /** Makes a change, on top of whatever others changed meanwhile. */
  async change(change: TranscriptChange<Item>): Promise<ChangeOutcome> {
    return this.#write(change.operationId, (writer) => this.#change(writer, change));
  }

  /** Copies what the caller gives, and refuses what cannot be saved before anything is done. */
  take(items: readonly Item[]): Item[] {
    this.#engine.codec.capture(items);
    return copyValue([...items]);
  }

  /** Does something while nothing else is under way here. */
  async alone<Result>(work: () => Promise<Result>): Promise<Result> {
    this.#waiting++;
    try {
      return await this.#serial.run(work);
    } finally {
      this.#waiting--;
    }
  }

  /** The next change reads the transcript again; nothing else changes. */
  forgetShadow(): void {
    this.#tip = undefined;
    this.#places.forget();
    this.#unstored.clear();
    this.#engine.shadows.release(this);
  }

  #write<Result>(operationId: string | undefined, work: (writer: Writer) => Promise<Result>): Promise<Result> {
    if (operationId === '')
      throw new InvalidInputError('An operation id must not be empty. Leave it out, or name one.');
    return this.#engine.write((writer) => this.alone(() => work(writer)), { sessionId: this.sessionId });
  }

  #change(writer: Writer, change: TranscriptChange<Item>): Promise<ChangeOutcome> {
    const turn = new Turn(this.#engine, this.sessionId);
    const attempt = async (found: BranchHead): Promise<ChangeOutcome | undefined> => {
      let tip: Tip | undefined;
      try {
        tip = await this.#refresh(found);
        return await this.#attempt(writer, tip, { ...change, refs: turn.refs });
      } catch (error) {
        if (!isRefused(error, 'moved')) this.forgetShadow(); // some of what it knows may be taken for stored
        if (!(await this.#isOutdated(error, tip)) || !(await turn.lost())) throw error;
        return undefined;
      }
    };
    return turn.run(() => this.#findHead(), attempt);
  }

  /** Whether someone else changed the transcript meanwhile, or even took away what was to be read. */
  async #isOutdated(error: unknown, tip: Tip | undefined): Promise<boolean> {
    if (isRefused(error, 'moved') || isRefused(error, 'gone')) return true;
    const isGone = hasErrorCode(error, 'CORRUPT') || hasErrorCode(error, 'NOT_FOUND');
    return isGone && tip !== undefined && (await this.#findHead()).headId !== tip.head?.id;
  }

  async #attempt(
    writer: Writer,
    tip: Tip,
    { edit: makeEdit, refs, ...change }: TranscriptChange<Item> & Required<Pick<WritePlace, 'refs'>>,
  ): Promise<ChangeOutcome> {
    const { branch, head } = tip;
    const place = { sessionId: this.sessionId, branch, parent: head, expect: head?.id ?? null, refs };
    const pending = { tip, place, change };
    let edit: TranscriptEdit | undefined;
    try {
      edit = makeEdit(this.#view(tip));
    } catch (error) {
      const repeated = await this.#findRepeated(writer, pending);
      if (repeated === undefined) throw error;
      return repeated;
    }
    return edit === undefined ? { status: 'unchanged', head } : this.#store(writer, pending, edit);
  }

  /** What no longer fits may have been done before: an operation id that is known says so. Nothing is stored here in any case. */
  async #findRepeated(writer: Writer, pending: PendingChange): Promise<ChangeOutcome | undefined> {
    if (pending.change.operationId === undefined) return undefined;
    const { nextId } = this.#engine.ports;
    const place = { ...pending.place, expect: nextId(pending.place.parent?.id) };
    try {
      return await this.#store(writer, { ...pending, place }, { keep: pending.tip.state.items.length, add: [] });
    } catch (error) {
      if (isRefused(error, 'moved')) return undefined;
      throw error;
    }
  }

  async #store(writer: Writer, { tip, place, change }: PendingChange, edit: TranscriptEdit): Promise<ChangeOutcome> {
    const { codec, ports } = this.#engine;
    const state = applyEdit(tip.state, edit);
    const encoded = codec.encode(state, tip.encoded);
    const { operationId, trigger, about } = change;
    const digest = operationId === undefined ? undefined : codec.digest(about).digest;
    const metadata = digest === undefined ? edit.metadata : { ...edit.metadata, change: digest };
    // Operation ids are other people's: any text, also one that may not be a name.
    const idempotencyKey = operationId === undefined ? undefined : `op_${digestText(operationId)}`;
    const described = describeCheckpoint({ type: 'auto', trigger, metadata, idempotencyKey }, codec);
    const id = ports.nextId(place.parent?.id);
    const isSame = ({ checkpoint }: { checkpoint: Checkpoint }) =>
      Promise.resolve(checkpoint.metadata?.change === digest);
    for (const chunk of encoded.chunks) this.#unstored.set(chunk.digest, chunk);
    const chunks = [...this.#unstored.values()];
    const head = await writer.write({ ...place, id }, { described, encoded, chunks, isSame });
    if (head.id !== id) return { status: 'repeated', head };
    this.#unstored.clear();
    this.#keep({ branch: place.branch, head, state, encoded });
    return { status: 'stored', head };
  }

  async #lastBefore(popped: Checkpoint | undefined): Promise<Item | undefined> {
    if (popped?.parentId === undefined) return undefined;
    const state = (await this.#open(popped.parentId)).state;
    return itemsFrom(state, state.items.length - 1)[0] as Item;
  }

  async #findHead(): Promise<BranchHead> {
    const { sessionId } = this;
    const refs = await this.#engine.repository.readRefs({ sessionId });
    const branch = this.branch ?? findCurrentBranch(refs);
    const branches = refs.filter(({ kind }) => kind === 'branch');
    const found = branches.find(({ name }) => name === branch);
    if (found === undefined && (await settleImport(this.#engine, sessionId))) return this.#findHead();
    if (found === undefined && this.branch !== undefined && branches.length > 0)
      throw new NotFoundError(
        `Session "${sessionId}" has no branch "${branch}" (it has: ${branches.map(({ name }) => name).join(', ')}). Make it with fork.`,
        { details: { sessionId, branch } },
      );
    return { branch, headId: found?.target as CheckpointId | undefined, turn: findTurn(refs, branch) };
  }

  async #refresh(found?: BranchHead): Promise<Tip> {
    const { branch, headId } = found ?? (await this.#findHead());
    const known = this.#tip;
    if (known !== undefined && known.branch === branch && known.head?.id === headId) return known;
    const followed = headId === undefined ? undefined : await this.#follow(branch, headId);
    if (followed !== undefined) return this.#keep(followed);
    this.forgetShadow();
    if (headId === undefined)
      return { branch, head: undefined, state: emptyTranscript(this.#adapter), encoded: undefined };
    return this.#keep({ branch, ...(await this.#open(headId)) });
  }

  #keep(tip: Tip): Tip {
    this.#tip = tip;
    if (tip.encoded !== undefined) this.#engine.shadows.touch(this, tip.encoded.sizeBytes);
    return tip;
  }

  /** What others appended since, read without the rest: a writer that had to read all would never get its turn beside a quick one. */
  async #follow(branch: string, headId: CheckpointId): Promise<Tip | undefined> {
    const { repository, codec } = this.#engine;
    const known = this.#tip;
    if (known?.encoded === undefined || known.branch !== branch) return undefined;
    const { checkpoint: head, root } = await repository.open(headId);
    const load = (digests: readonly Digest[]) => repository.readChunks(digests);
    const diff = diffStates({ before: known.encoded.root, after: root, load, codec });
    const found = await diff.catch(() => undefined); // what was known may be collected; all of it is read then
    const state = found === undefined ? undefined : applyAppends(known.state, found.changes);
    if (state === undefined) return undefined;
    const encoded = codec.encode(state, known.encoded);
    return encoded.root.digest === root.digest ? { branch, head, state, encoded } : undefined;
  }

  async #open(id: CheckpointId): Promise<Omit<Tip, 'branch'> & { readonly head: Checkpoint }> {
    const stored = await this.#engine.repository.open(id);
    const { state, encoded } = await loadState(this.#engine, stored);
    return { head: stored.checkpoint, state: parseTranscript(state, this.#adapter, this.sessionId), encoded };
  }

  #view(tip: Tip): TranscriptView<Item> {
    return viewOf(tip, this.#places);
  }
}

type PendingChange = {
  readonly tip: Tip;
  readonly place: WritePlace;
  readonly change: Omit<TranscriptChange<never>, 'edit'>;
};
