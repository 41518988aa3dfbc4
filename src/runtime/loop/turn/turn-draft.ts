import { AsyncLocalStorage } from 'node:async_hooks';
import { create, current, type Draft, isDraft, type Patches } from 'mutative';
import { findIn, type StateCodec } from '../../../core/codec/state-codec.ts';
import { InvalidInputError } from '../../../core/errors.ts';
import type { AgentMind } from '../state/agent-state.ts';

/** Knows, across every `await`, whether code runs inside a step. */
const inside = new AsyncLocalStorage<'step' | 'operation'>();

/** Runs code as the inside of a step or a guarded operation: it cannot change the state of the turn. */
export function runInside<Result>(what: 'step' | 'operation', run: () => Result): Result {
  return inside.run(inside.getStore() === 'operation' ? 'operation' : what, run);
}

/** Whether the caller is part of a guarded operation. */
export function isInsideOperation(): boolean {
  return inside.getStore() === 'operation';
}

/** The state that a turn works on: a draft, of which nothing reaches the mind it was made of before the turn ends. */
export class TurnDraft {
  /** To be changed in place, between steps. */
  readonly state: Draft<AgentMind>;
  readonly #draft: Draft<AgentMind>;
  readonly #finalize: () => readonly [AgentMind, Patches, Patches];

  constructor(mind: AgentMind, codec: StateCodec) {
    const [draft, finalize] = create(mind, { enablePatches: true });
    this.#draft = draft;
    this.#finalize = finalize as unknown as () => readonly [AgentMind, Patches, Patches];
    this.state = guarded(draft, (value) => copyOf(codec, value));
  }

  /** The state as it is. */
  look(): AgentMind {
    return current(this.#draft) as AgentMind;
  }

  /** Ends the draft; returns the state it came to, and what changed. */
  finish(): { readonly mind: AgentMind; readonly patches: Patches } {
    const [mind, patches] = this.#finalize();
    return { mind, patches };
  }
}

/** A copy that shares nothing with the value. What cannot be saved cannot be copied; it is refused when the turn ends. */
export function copyOf<Value>(codec: StateCodec, value: Value): Value {
  try {
    const { root, chunks } = codec.encode(value);
    return codec.decode(root, findIn(new Map(chunks.map((chunk) => [chunk.digest, chunk])))) as Value;
  } catch (error) {
    if (error instanceof InvalidInputError) return value;
    throw error;
  }
}

/** The same draft; it and its parts refuse to be changed inside a step, and hand out no value that freezing does not protect. */
function guarded<Root extends object>(draft: Root, copy: (value: object) => object): Root {
  const views = new WeakMap<object, object>();
  const parts = new WeakMap<object, object>();
  const own = new WeakSet<object>();
  const view = (part: object): object => {
    const known = views.get(part) ?? new Proxy(part, handler);
    views.set(part, known);
    parts.set(known, part);
    return known;
  };
  const handOut = (target: object, key: PropertyKey, value: object): object => {
    const isInside = inside.getStore() !== undefined;
    if (isPlain(value)) return isInside || isDraft(value) ? view(value) : value;
    if (isInside || isDraft(value) || own.has(value)) return isInside ? copy(value) : value;
    const mine = copy(value);
    own.add(mine);
    Reflect.set(target, key, mine);
    return mine;
  };
  const change = (key: PropertyKey, make: () => boolean): boolean => {
    if (inside.getStore() === undefined) return make();
    throw new InvalidInputError(
      `The state of a turn cannot be changed inside a step or a guarded operation (it was "${String(key)}"). Return what it found out, and change the state after it.`,
    );
  };
  const handler: ProxyHandler<object> = {
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      return typeof key === 'symbol' || typeof value !== 'object' || value === null
        ? value
        : handOut(target, key, value);
    },
    set: (target, key, value) => change(key, () => Reflect.set(target, key, parts.get(value as object) ?? value)),
    deleteProperty: (target, key) => change(key, () => Reflect.deleteProperty(target, key)),
    defineProperty: (target, key, field) => change(key, () => Reflect.defineProperty(target, key, field)),
  };
  return view(draft) as Root;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === Object.prototype || prototype === null;
}

/** One change of a state that an older version recorded with a step. */
type StateChange = {
  readonly op: 'add' | 'replace' | 'remove';
  readonly path: readonly (string | number)[];
  readonly value?: unknown;
};

/** A step as older versions recorded it if it had changed the state: steps could do that. */
type StepRecord = { readonly 'savestate:changes': readonly StateChange[]; readonly result: unknown };

const CHANGES = 'savestate:changes';

/** What to record of a step: its result. One that looks like an old record is put into one. */
export function formatStepRecord(result: unknown): unknown {
  return isRecord(result) ? { [CHANGES]: [], result } : result;
}

/** Reads what was recorded; changes that an older version recorded are made in the state again. */
export function readStepRecord(recorded: unknown, state: object): unknown {
  if (!isRecord(recorded)) return recorded;
  for (const change of recorded[CHANGES]) redo(state, change);
  return recorded.result;
}

function redo(state: object, { op, path, value }: StateChange): void {
  const key = path.at(-1);
  const holder = path.slice(0, -1).reduce<unknown>((part, name) => (isObject(part) ? part[name] : undefined), state);
  if (key === undefined || !isObject(holder)) return;
  if (op === 'remove') Reflect.deleteProperty(holder, key);
  else if (Array.isArray(holder) && op === 'add') holder.push(structuredClone(value));
  else Reflect.set(holder, key, structuredClone(value));
}

function isObject(value: unknown): value is { readonly [key: string | number]: unknown } {
  return typeof value === 'object' && value !== null;
}

function isRecord(value: unknown): value is StepRecord {
  return isObject(value) && Object.hasOwn(value, CHANGES);
}
