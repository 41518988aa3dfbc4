import { AsyncLocalStorage } from 'node:async_hooks';
import { create, current, type Draft, isDraft } from 'mutative';
import type { StateCodec } from '../../core/state-codec.ts';
import type { AgentMind } from './agent-state.ts';
import type { OpenCalls } from './open-calls.ts';
import { applyChanges, changesBetween, type StateChange } from './state-changes.ts';
import { StateValues } from './state-values.ts';

/** A piece of a turn that is recorded as one, such as a step, and what it has changed so far. */
type Scope = {
  readonly draft: TurnDraft;
  readonly parent: Scope | undefined;
  readonly operation: OpenCalls | undefined;
  /** By turns: it may have had the draft several times. */
  readonly changes: (readonly StateChange[])[];
  /** What others have changed since its state was remembered. */
  others: (readonly StateChange[])[] | undefined;
  isOver: boolean;
};

/** Knows, across every `await`, on behalf of which scope code runs: that is how steps side by side are told apart. */
const scopes = new AsyncLocalStorage<Scope>();

/**
 * The state that a turn works on: a draft, of which nothing reaches the mind it was made of. It knows which step changed what, because
 * whatever touches it is asked for its scope, and when another scope touches it than before, the difference belongs to the one before.
 */
export class TurnDraft {
  /** To be changed in place. */
  readonly state: Draft<AgentMind>;
  readonly values: StateValues;
  readonly #draft: Draft<AgentMind>;
  readonly #finalize: () => unknown;
  readonly #remembering = new Set<Scope>();
  /** What the draft holds that is no draft, with a copy of what it was: it can be changed without the draft being touched. */
  readonly #loose = new Map<object, unknown>();
  #isTouched = false;
  /** The state when it was last looked at. */
  #now: AgentMind;
  /** Who has the draft now; undefined is the turn itself. */
  #owner: Scope | undefined;
  /** The state when that began. */
  #since: AgentMind;

  constructor(mind: AgentMind, codec: StateCodec) {
    this.values = new StateValues(codec);
    this.#now = this.values.copy(mind);
    this.#since = this.#now;
    [this.#draft, this.#finalize] = create(this.values.copy(mind));
    this.state = watched(this.#draft, {
      touch: () => this.#enter(this.#scope),
      change: () => {
        this.#isTouched = true;
      },
      hold: (value) => {
        if (!this.#loose.has(value)) this.#loose.set(value, undefined);
      },
    });
  }

  get #scope(): Scope | undefined {
    let scope = scopes.getStore();
    if (scope?.draft !== this) return undefined;
    while (scope?.isOver === true) scope = scope.parent;
    return scope;
  }

  /** The guarded operation that the caller is part of. */
  get operation(): OpenCalls | undefined {
    let scope = this.#scope;
    while (scope !== undefined && scope.operation === undefined) scope = scope.parent;
    return scope?.operation;
  }

  /** The state as it is. */
  look(): AgentMind {
    if (this.#isChanged()) this.#now = this.values.copy(current(this.#draft) as AgentMind, this.#now);
    return this.#now;
  }

  #isChanged(): boolean {
    let isChanged = this.#isTouched;
    for (const [value, before] of this.#loose) {
      // Drafts of maps and sets are changed by methods that nobody sees.
      const now = isDraft(value) ? undefined : this.values.copy<unknown>(value, before);
      isChanged ||= now === undefined || now !== before;
      this.#loose.set(value, now);
    }
    this.#isTouched = false;
    return isChanged;
  }

  #apply(changes: readonly StateChange[]): void {
    this.#isTouched = true;
    applyChanges(this.values, this.#draft, changes);
  }

  /** Runs a piece of the turn; answers its result and what it changed. */
  async run<Result>(
    work: () => Promise<Result> | Result,
    operation?: OpenCalls,
  ): Promise<{ readonly result: Result; readonly changes: readonly StateChange[] }> {
    const parent = this.#scope;
    const scope: Scope = { draft: this, parent, operation, changes: [], others: undefined, isOver: false };
    this.#enter(scope);
    try {
      const result = await scopes.run(scope, async () => work());
      this.#close();
      return { result, changes: scope.changes.flat() };
    } finally {
      scope.isOver = true;
      this.#remembering.delete(scope);
    }
  }

  /** Makes changes that a piece made before the process died. */
  redo(changes: readonly StateChange[]): void {
    this.#enter(this.#scope);
    this.#apply(changes);
  }

  /** Remembers the state as it is now; answers how to put it back, in place. What others changed meanwhile stays. */
  remember(): () => void {
    const scope = this.#scope;
    this.#close();
    const before = this.#since;
    if (scope !== undefined) {
      scope.others = [];
      this.#remembering.add(scope);
    }
    return () => {
      this.#enter(scope);
      this.#close();
      const target = this.values.copyWhole(before);
      applyChanges(this.values, target, scope?.others?.flat() ?? []);
      this.#apply(changesBetween(this.values, this.#since, target));
    };
  }

  /** Ends the draft; answers the state it came to. */
  finish(): AgentMind {
    const mind = this.look();
    this.#finalize();
    return mind;
  }

  #enter(scope: Scope | undefined): void {
    if (scope === this.#owner) return;
    this.#close();
    this.#owner = scope;
  }

  /** Books what changed to its owner and all that it is part of. */
  #close(): void {
    const now = this.look();
    const owner = this.#owner;
    if (now !== this.#since && (owner !== undefined || this.#remembering.size > 0)) {
      const changes = changesBetween(this.values, this.#since, now);
      for (let scope = owner; scope !== undefined; scope = scope.parent) if (!scope.isOver) scope.changes.push(changes);
      for (const scope of this.#remembering) if (!isWithin(owner, scope)) scope.others?.push(changes);
    }
    this.#since = now;
  }
}

function isWithin(scope: Scope | undefined, outer: Scope): boolean {
  return scope !== undefined && (scope === outer || isWithin(scope.parent, outer));
}

/** Hears what is done to a draft. */
type DraftListener = {
  /** Something is about to be read or changed. */
  readonly touch: () => void;
  /** Something is about to be changed. */
  readonly change: () => void;
  /** A value that is no draft went in or out. */
  readonly hold: (value: object) => void;
};

/** The same draft; it and all its parts tell what is done to them. */
function watched<Root extends object>(draft: Root, { touch, change, hold }: DraftListener): Root {
  const views = new WeakMap<object, object>();
  const parts = new WeakMap<object, object>();
  const view = (part: object): object => {
    if (parts.has(part)) return part;
    const known = views.get(part);
    if (known !== undefined) return known;
    const made = new Proxy(part, handler);
    views.set(part, made);
    parts.set(made, part);
    return made;
  };
  const handOut = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value;
    if (isPart(value)) return view(value);
    hold(value);
    return value;
  };
  const takeIn = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value;
    if (!isPart(value)) hold(value);
    return parts.get(value) ?? value;
  };
  const handler: ProxyHandler<object> = {
    get(target, key) {
      touch();
      return typeof key === 'symbol' ? Reflect.get(target, key) : handOut(Reflect.get(target, key));
    },
    set(target, key, value) {
      touch();
      change();
      return Reflect.set(target, key, takeIn(value));
    },
    deleteProperty(target, key) {
      touch();
      change();
      return Reflect.deleteProperty(target, key);
    },
    getOwnPropertyDescriptor(target, key) {
      touch();
      const found = Reflect.getOwnPropertyDescriptor(target, key);
      return found !== undefined && 'value' in found ? { ...found, value: handOut(found.value) } : found;
    },
  };
  return view(draft) as Root;
}

/** Whether a value is a draft of a list or a record. */
function isPart(value: object): boolean {
  return isDraft(value) && !(value instanceof Map || value instanceof Set);
}
