import { freezeState } from '../../core/freeze.ts';
import { digestText } from '../../core/tree/chunk.ts';
import type { StepAttempt } from '../../manager/effect/effect-log.ts';
import { type InputDigest, isSameInput } from '../../manager/effect/input-digest.ts';
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
};

/** What a checkpoint holds of a work that is not over: the calls that need not be made again. */
export type OpenWork = {
  readonly name: string;
  /** The branch on which it began. A fork takes it along, and with it the keys of what was in flight. */
  readonly origin: string;
  /** How often it was begun. */
  readonly attempt: number;
  readonly done: readonly DoneCall[];
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
};

type Identity = Pick<DoneCall, 'name' | 'digest' | 'nth'>;
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
  #former: readonly FormerCall[];
  /** Results that were recorded by an earlier process: what was secret in them was left out. */
  readonly replayed: unknown[] = [];

  private constructor(session: WorkSession, { name, origin, attempt, done, former = [] }: OpenWork) {
    this.name = name;
    this.#session = session;
    this.#origin = origin;
    this.#attempt = attempt;
    this.#former = former;
    for (const call of done) this.#note(call);
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
    return { name: this.name, origin: this.#origin, attempt: this.#attempt, done: [...this.#done.values()], ...former };
  }

  async run<Result>(call: EffectCall, perform: (attempt: StepAttempt) => Promise<Result>): Promise<Result> {
    const { kind, name, input, signal } = call;
    const formerly = `${kind}:${name}`;
    const place = { name: formerly, input, signal, formerly };
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
      this.#done.delete(placeOf(identity));
      taken.delete(identity.nth);
      throw error;
    }
  }

  async #perform<Result>(
    { signal, formerly, label }: WorkCall,
    identity: Identity,
    perform: (attempt: StepAttempt) => Promise<Result> | Result,
  ): Promise<Result> {
    const { name, digest, nth } = identity;
    const note = (result: Result): void => this.#note({ ...identity, ...(label !== undefined && { label }), result });
    let isReplayed = true;
    const performAndNote = async (attempt: StepAttempt): Promise<Result> => {
      isReplayed = false;
      const result = await perform(attempt);
      this.#session.digestOf(result); // what cannot be saved must not be in a checkpoint that is taken meanwhile
      // Noted before it is recorded: a checkpoint taken in between has it one way or the other.
      note(result);
      return result;
    };
    const result = await this.#session.step(name, performAndNote, {
      ...(signal !== undefined && { signal }),
      work: { name: this.name, digest, nth, key: this.#keyOf([name, digest, nth]), formerly },
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
   * Begins another attempt after a drift. Calls with an input stay ended, each of several equal ones: they may have paid for
   * something. Calls without one are mostly thinking, and are let go: what is asked for again runs again, with the key it had.
   */
  afterDrift(): { readonly kept: readonly DoneCall[]; readonly dropped: readonly DoneCall[] } {
    this.again();
    const ended = [...this.#done.values()].filter((call) => call.undoneBy === undefined);
    const dropped = ended.filter(({ digest }) => digest === null);
    for (const call of dropped) this.#done.delete(placeOf(call));
    return { kept: ended.filter(({ digest }) => digest !== null), dropped };
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

  /** A call that ended and whose input is the same as far as is known, with fewer or more of its secrets. */
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

  /** Ends the move. */
  settle(): void {
    this.#work?.settle();
    this.#work = undefined;
    this.#saved = [];
  }
}

/** A work that nobody has begun yet. */
export function newWork(name: string, origin: string): OpenWork {
  return { name, origin, attempt: 1, done: [] };
}

function idOf({ name, digest }: Pick<Identity, 'name' | 'digest'>): string {
  return JSON.stringify([name, digest]);
}

function placeOf(call: Identity): string {
  return `${call.nth} ${idOf(call)}`;
}
