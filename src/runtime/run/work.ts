import { freezeState } from '../../core/freeze.ts';
import { digestText } from '../../core/tree/chunk.ts';
import { givenForm, type InputDigest, isSameInput, sortedForm } from '../../manager/effect/input-digest.ts';
import type { StepAttempt } from '../../manager/effect/step.ts';
import type { Session } from '../../manager/session/session.ts';
import type { EffectCall, Effects } from '../agent/effects.ts';

/** A call of a work that is over. It is known by its name, the digest of its input, and which of several equal calls it is. */
export type DoneCall = {
  readonly name: string;
  /** Null if it had no input. */
  readonly digest: InputDigest | null;
  readonly nth: number;
  readonly label?: string;
  readonly result: unknown;
  /** What took it back: its result is not used again, and the next equal call has another key. */
  readonly undoneBy?: string;
  /** Its key, if another work made it. */
  readonly key?: string;
};

/** A call that was made for a work, and its key. */
export type MadeCall = Pick<DoneCall, 'name' | 'digest' | 'label'> & {
  readonly work: string;
  readonly key: string;
  readonly isOver: boolean;
  /** What came of it, if it is over. */
  readonly result: unknown;
};

/** What a checkpoint holds of a work that is not over: the calls that need not be made again. */
export type OpenWork = {
  readonly name: string;
  /** The branch on which it began. A fork takes it along, and with it the keys of what was in flight. */
  readonly origin: string;
  readonly attempt: number;
  readonly done: readonly DoneCall[];
  /** Keys of calls that another work made and that need to be made again. */
  readonly keys?: readonly KeyedCall[];
  /** Finished calls as an older version held them, in order. */
  readonly former?: readonly FormerCall[];
};

/** A finished call in the form of an older version: known by its place, and a digest of kind, name and input. */
export type FormerCall = { readonly digest: string; readonly result: unknown };

/** A call of a work. Several of one name are told apart by their inputs, or else by their order. */
export type WorkCall = {
  readonly name: string;
  readonly input?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** What people and agents are told of it. */
  readonly label?: string;
  /** The name under which an older version recorded the call. */
  readonly formerly?: string | undefined;
  /** @internal */
  readonly recall?: EffectCall['recall'];
};

type Identity = Pick<DoneCall, 'name' | 'digest' | 'nth'>;
type KeyedCall = Identity & { readonly key: string };
const NONE: ReadonlySet<number> = new Set();

/** What a work needs of its session. */
export type WorkSession = Pick<Session, 'id' | 'branch' | 'step'> & {
  digestOf(value: unknown): InputDigest;
  finishedStepsOf(name: string): Promise<readonly Omit<DoneCall, 'label' | 'undoneBy'>[]>;
  settleWork(name: string): void;
};

/**
 * A piece of work with a name that follows from the state, such as `message 7`, and not from the attempt. A call that has
 * ended is not made again, and one that did not keeps its key: in the next attempt, in another process, and in a fork.
 */
export class Work implements Effects {
  readonly name: string;
  readonly #session: WorkSession;
  readonly #origin: string;
  #attempt: number;
  readonly #done = new Map<string, DoneCall>();
  /** Which of equal calls this attempt has made, or is making. */
  readonly #taken = new Map<string, Set<number>>();
  /** How often this attempt made each call, whatever came of it, and how often an earlier one in this process did at most. */
  readonly #calls = new Map<string, number>();
  readonly #called = new Map<string, number>();
  /** The calls that another work made, by their place in this one. */
  readonly #recalled = new Map<string, KeyedCall>();
  #former: readonly FormerCall[];
  /** Results that were recorded by an earlier process: what was secret in them was left out. */
  readonly replayed: unknown[] = [];

  private constructor(session: WorkSession, { name, origin, attempt, done, keys = [], former = [] }: OpenWork) {
    this.name = name;
    this.#session = session;
    this.#origin = origin;
    this.#attempt = attempt;
    this.#former = former;
    for (const call of done) this.#note(call);
    for (const { name: of, digest, nth, key } of [...done, ...keys])
      if (key !== undefined) this.#recalled.set(placeOf({ name: of, digest, nth }), { name: of, digest, nth, key });
  }

  /** Goes on with a work as a checkpoint held it, or begins the one of this name. */
  static open(session: WorkSession, given: string | OpenWork): Work {
    return new Work(session, typeof given === 'string' ? newWork(given, session.branch) : given);
  }

  /** The same for all attempts at the work. */
  get key(): string {
    return this.#keyOf([]);
  }

  get attempt(): number {
    return this.#attempt;
  }

  /** What a checkpoint that is taken now must hold of it. */
  get record(): OpenWork {
    const former = this.#former.length > 0 && { former: this.#former };
    const open = [...this.#recalled].flatMap(([place, call]) => (this.#done.has(place) ? [] : [call]));
    const keys = open.length > 0 && { keys: open };
    const done = [...this.#done.values()];
    return { name: this.name, origin: this.#origin, attempt: this.#attempt, done, ...keys, ...former };
  }

  /** The calls that were made for it, with their keys; those that were taken back, too. */
  get made(): readonly MadeCall[] {
    const { done, keys = [] } = this.record;
    const calls = [...done, ...keys.map((call) => ({ ...call, result: undefined }))];
    return calls.map((call, at) => ({ ...call, work: this.name, key: this.#keyAt(call), isOver: at < done.length }));
  }

  /** The keys of calls of other works that this attempt asked for. */
  get used(): readonly string[] {
    return [...this.#recalled.values()].filter((call) => this.#isTaken(call)).map(({ key }) => key);
  }

  /** The keys of the calls that have ended and that this attempt asked for. */
  get asked(): ReadonlySet<string> {
    const taken = [...this.#done.values()].filter((call) => this.#isTaken(call));
    return new Set(taken.map((call) => this.#keyAt(call)));
  }

  #isTaken(call: Identity): boolean {
    return this.#taken.get(idOf(call))?.has(call.nth) === true;
  }

  /** What an input is known by. Refuses what cannot be saved. */
  digestOf(value: unknown): InputDigest {
    return this.#session.digestOf(value);
  }

  /** The calls of other works whose keys are not among these: nobody asked for them yet. */
  unused(used: readonly string[]): readonly MadeCall[] {
    const recalled = new Set([...this.#recalled.values()].map(({ key }) => key));
    return this.made.filter(({ key }) => recalled.has(key) && !used.includes(key));
  }

  async run<Result>(call: EffectCall, perform: (attempt: StepAttempt) => Promise<Result>): Promise<Result> {
    const { kind, name, input, signal, recall } = call;
    const formerly = `${kind}:${name}`;
    const place = { name: formerly, input, signal, formerly, recall };
    const [known, ...rest] = this.#former;
    if (known === undefined) return this.call(place, perform);
    const isSame = known.digest === digestText(JSON.stringify([kind, name, input])).slice(0, 32);
    this.#former = isSame ? rest : []; // otherwise the work takes another way from here on
    if (isSame) this.#note({ ...this.#identify(place), result: known.result });
    return this.call(place, perform);
  }

  /** Makes a call, unless it has ended before: then its result is returned, frozen. */
  async call<Result>(call: WorkCall, perform: (attempt: StepAttempt) => Promise<Result> | Result): Promise<Result> {
    call.signal?.throwIfAborted();
    const identity = this.#identify(call);
    const taken = this.#takenOf(identity);
    taken.add(identity.nth);
    this.#calls.set(idOf(identity), (this.#calls.get(idOf(identity)) ?? 0) + 1);
    const done = this.#done.get(placeOf(identity));
    if (done !== undefined) return done.result as Result;
    try {
      return await this.#perform(call, identity, perform);
    } catch (error) {
      taken.delete(identity.nth);
      throw error;
    }
  }

  async #perform<Result>(
    { signal, formerly, label, recall }: WorkCall,
    identity: Identity,
    perform: (attempt: StepAttempt) => Promise<Result> | Result,
  ): Promise<Result> {
    const { name, digest, nth } = identity;
    let noted: DoneCall | undefined;
    const note = (result: Result): void => {
      noted = { ...identity, ...(label !== undefined && { label }), result };
      this.#note(noted);
    };
    let isReplayed = true;
    const performAndNote = async (attempt: StepAttempt): Promise<Result> => {
      isReplayed = false;
      const result = await perform(attempt);
      this.#session.digestOf(result); // what cannot be saved must not be in a checkpoint that is taken meanwhile
      // Noted before it is recorded: a checkpoint taken in between has it one way or the other.
      note(result);
      return result;
    };
    const work = { name: this.name, digest, nth, key: this.#keyAt(identity), formerly, recall };
    const step = this.#session.step(name, performAndNote, { ...(signal !== undefined && { signal }), work });
    const result = await step.catch((error: unknown) => {
      // What another attempt noted stays: this one may have outlived its time.
      if (noted !== undefined && this.#done.get(placeOf(identity)) === noted) this.#done.delete(placeOf(identity));
      throw error;
    });
    note(result);
    if (isReplayed) this.replayed.push(result);
    return result;
  }

  #note(call: DoneCall): void {
    freezeState(call);
    this.#done.set(placeOf(call), call);
  }

  /** Takes in what an attempt that died with its process had recorded, for a record that outlives the recordings. */
  async recall(): Promise<void> {
    for (const call of await this.#session.finishedStepsOf(this.name))
      if (!this.#done.has(placeOf(call))) this.#note(call);
  }

  /** Whether this call has ended before. */
  has(call: WorkCall): boolean {
    return this.#done.has(placeOf(this.#identify(call)));
  }

  /** Whether an attempt before this one made such a call as often as this one would with it, whatever came of it. */
  wasCalled(call: WorkCall): boolean {
    const id = idOf(this.#identify(call));
    return (this.#calls.get(id) ?? 0) < (this.#called.get(id) ?? 0);
  }

  /** Begins another attempt: calls that ended stay ended. */
  again(): void {
    for (const [id, times] of this.#calls) this.#called.set(id, Math.max(times, this.#called.get(id) ?? 0));
    this.#calls.clear();
    this.#taken.clear();
    this.#attempt++;
  }

  /**
   * Lets go, after a drift, of calls without an input. Calls with one stay ended, each of several equal ones: they may have paid for
   * something.
   */
  afterDrift(): { readonly kept: readonly DoneCall[]; readonly dropped: readonly DoneCall[] } {
    const ended = [...this.#done.values()].filter((call) => call.undoneBy === undefined);
    const dropped = ended.filter((call) => !isKeptAfterDrift(call));
    for (const call of dropped) this.#done.delete(placeOf(call));
    return { kept: ended.filter(isKeptAfterDrift), dropped };
  }

  /** Ends the work: its outcome is in the state, and nobody asks for its calls any more. */
  settle(): void {
    this.#session.settleWork(this.name);
  }

  /** Notes that a call was taken back; told by the same undoing again, it does nothing. */
  undo(call: WorkCall, undoneBy: string): void {
    const { name, digest } = this.#identify(call);
    const isNoted = [...this.#done.values()].some((one) => one.undoneBy === undoneBy);
    if (!isNoted) this.#note({ name, digest, nth: this.#nextNth({ name, digest }, NONE), result: null, undoneBy });
  }

  #identify(call: WorkCall): Identity {
    const { name } = call;
    const digest = 'input' in call ? this.#session.digestOf(call.input) : null;
    const taken = this.#taken.get(idOf({ name, digest })) ?? NONE;
    const identity = { name, digest, nth: this.#nextNth({ name, digest }, taken) };
    return this.#done.has(placeOf(identity)) ? identity : (this.#findAlike(name, digest) ?? identity);
  }

  /** A call that ended and whose input is the same as far as is known: in another order of keys, with fewer or more of its secrets. */
  #findAlike(name: string, digest: InputDigest | null): Identity | undefined {
    if (digest === null) return undefined;
    return [...this.#done.values()].find(
      (done) =>
        done.name === name &&
        done.digest !== null &&
        done.digest !== digest &&
        isSameInput(done.digest, digest) &&
        done.undoneBy === undefined &&
        this.#taken.get(idOf(done))?.has(done.nth) !== true,
    );
  }

  /** The first of equal calls that was neither made in this attempt nor taken back. */
  #nextNth({ name, digest }: Pick<Identity, 'name' | 'digest'>, taken: ReadonlySet<number>): number {
    let nth = 0;
    while (taken.has(nth) || this.#done.get(placeOf({ name, digest, nth }))?.undoneBy !== undefined) nth++;
    return nth;
  }

  #takenOf(identity: Pick<Identity, 'name' | 'digest'>): Set<number> {
    const id = idOf(identity);
    const taken = this.#taken.get(id) ?? new Set();
    this.#taken.set(id, taken);
    return taken;
  }

  #keyAt(call: Identity): string {
    const { name, digest, nth } = call;
    const asWritten = { name, digest: digest && givenForm(digest), nth }; // older versions knew no other form
    const recalled = this.#recalled.get(placeOf(call)) ?? this.#recalled.get(placeOf(asWritten));
    return recalled?.key ?? this.#keyOf([name, digest && sortedForm(digest), nth]);
  }

  #keyOf(place: readonly unknown[]): string {
    return `eff_${digestText(JSON.stringify([this.#session.id, this.#origin, this.name, ...place])).slice(0, 32)}`;
  }
}

/** The works of a run that makes one move after the other: calls belong to the move that the state says is next. */
export class MoveWorks implements Effects {
  readonly #session: WorkSession;
  readonly #nameOf: () => string;
  #saved: readonly OpenWork[];
  #work: Work | undefined;

  constructor(session: WorkSession, nameOf: () => string, saved: readonly OpenWork[] = []) {
    this.#session = session;
    this.#nameOf = nameOf;
    this.#saved = saved;
  }

  /** The work of the move under way. That of the move before is over: what came of it is in the state. */
  get current(): Work {
    const name = this.#nameOf();
    if (this.#work !== undefined && this.#work.name !== name) this.settle();
    this.#work ??= Work.open(this.#session, this.#saved.find((work) => work.name === name) ?? name);
    return this.#work;
  }

  /** What a checkpoint that is taken before the move is over must hold. */
  get open(): readonly OpenWork[] {
    const { record } = this.current;
    return record.done.length > 0 || record.former !== undefined ? [record] : [];
  }

  async run<Result>(call: EffectCall, perform: (attempt: StepAttempt) => Promise<Result>): Promise<Result> {
    return this.current.run(call, perform);
  }

  settle(): void {
    this.#work?.settle();
    this.#work = undefined;
    this.#saved = [];
  }
}

/** A work that goes on with what others did: each call keeps its key, and of equal ones those that are over come first. */
export function recallInto(work: OpenWork, calls: readonly MadeCall[]): OpenWork {
  const counts = new Map<string, number>();
  const done: DoneCall[] = [];
  const keys: KeyedCall[] = [];
  for (const call of calls.toSorted((a, b) => Number(b.isOver) - Number(a.isOver))) {
    const { name, digest, label, key, isOver, result } = call;
    const nth = counts.get(idOf(call)) ?? 0;
    counts.set(idOf(call), nth + 1);
    const keyed = { name, digest, nth, key };
    if (isOver && isKeptAfterDrift(call)) done.push({ ...keyed, ...(label !== undefined && { label }), result });
    else keys.push(keyed);
  }
  return { ...work, done, keys };
}

/** A work that nobody has begun yet. */
export function newWork(name: string, origin: string): OpenWork {
  return { name, origin, attempt: 1, done: [] };
}

/** Calls without an input are mostly thinking: what is asked for again runs again, with the key it had. */
function isKeptAfterDrift({ digest }: Pick<DoneCall, 'digest'>): boolean {
  return digest !== null;
}

function idOf({ name, digest }: Pick<Identity, 'name' | 'digest'>): string {
  return JSON.stringify([name, digest && sortedForm(digest)]);
}

function placeOf(call: Identity): string {
  return `${call.nth} ${idOf(call)}`;
}
