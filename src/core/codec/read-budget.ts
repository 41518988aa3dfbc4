import { CorruptError, InvalidInputError, messageOf, SavestateError } from '../errors.ts';
import { formatPath, formatShortPath, type PathStep } from '../path.ts';
import { OTHER_PRIMITIVE, OVERHEAD } from '../tree/size.ts';
import type { ValueLimits } from '../value/format.ts';
import type { Json, JsonObject } from '../value/grammar.ts';

/** How much there is of something, with all below it, nothing shared. */
export type Totals = { readonly nodes: number; readonly bytes: number };

/** Counts what is read against the limits on what may be saved, in the measure that saving uses: what was saved can be read. */
export class ReadBudget {
  readonly #limits: ValueLimits;
  #nodes = 0;
  #bytes = 0;
  #visits = 0;

  constructor(limits: ValueLimits) {
    this.#limits = limits;
  }

  /** Counts a container, or an object without children, that has so many around it. */
  enter(depth: number): void {
    this.#checkDepth(depth);
    this.count(OVERHEAD);
  }

  #checkDepth(depth: number): void {
    const { maxDepth } = this.#limits;
    if (depth >= maxDepth) throw new Unreadable(`nested deeper than ${maxDepth} levels`, 'limits.maxDepth');
  }

  /** Counts a value. */
  count(sizeBytes: number): void {
    this.#nodes++;
    if (this.#nodes > this.#limits.maxNodes) throw this.#tooMany();
    this.addBytes(sizeBytes);
  }

  addBytes(sizeBytes: number): void {
    this.#bytes += sizeBytes;
    const { maxBytes } = this.#limits;
    if (this.#bytes > maxBytes) throw new Unreadable(`more than ${maxBytes} bytes`, 'limits.maxBytes');
  }

  /** What was counted so far. */
  get totals(): Totals {
    return { nodes: this.#nodes, bytes: this.#bytes };
  }

  /** Counts all of something that was counted before. */
  countAll({ nodes, bytes }: Totals): void {
    this.#nodes += nodes;
    if (this.#nodes > this.#limits.maxNodes) throw this.#tooMany();
    this.addBytes(bytes);
  }

  addKey(key: string): void {
    this.addBytes(key.length + OVERHEAD);
  }

  /** Counts a chunk that is opened; empty ones cost time, too. */
  visit(): void {
    this.#visits++;
    if (this.#visits > this.#limits.maxNodes) throw this.#tooMany();
  }

  #tooMany(): Unreadable {
    return new Unreadable(`more than ${this.#limits.maxNodes} values`, 'limits.maxNodes');
  }

  countPrimitive(value: unknown): void {
    this.count(typeof value === 'string' ? value.length + OVERHEAD : OTHER_PRIMITIVE);
  }

  /** Counts a value without tags, with all that is in it: at once, and only if that is too much step by step, to name the place. */
  countPlain(json: Json, depth: number, add: (tally: Tally, json: Json, depth: number) => unknown = addTo): unknown {
    const { maxNodes, maxBytes, maxDepth } = this.#limits;
    const tally: Tally = { nodes: this.#nodes, bytes: this.#bytes, maxDepth, isTooDeep: false };
    const made = add(tally, json, depth);
    const { nodes, bytes, isTooDeep } = tally;
    if (nodes > maxNodes || bytes > maxBytes || isTooDeep) this.#countSteps(json, depth);
    else [this.#nodes, this.#bytes] = [nodes, bytes];
    return made;
  }

  #countSteps(json: Json, depth: number): void {
    if (typeof json !== 'object' || json === null) {
      this.countPrimitive(json);
      return;
    }
    const isList = Array.isArray(json);
    this.enter(depth);
    for (const [key, child] of Object.entries(json)) {
      try {
        if (!isList) this.addKey(key);
        this.#countSteps(child, depth + 1);
      } catch (error) {
        throw locate(error, isList ? Number(key) : key);
      }
    }
  }
}

/** What values come to. */
export type Tally = { nodes: number; bytes: number; readonly maxDepth: number; isTooDeep: boolean };

/** Adds a value and all that is in it to a tally. Every load comes through here, for every value. */
export function addTo(tally: Tally, json: Json, depth: number): void {
  tally.nodes++;
  if (typeof json === 'string') tally.bytes += json.length + OVERHEAD;
  else if (typeof json !== 'object' || json === null) tally.bytes += OTHER_PRIMITIVE;
  else if (depth >= tally.maxDepth) tally.isTooDeep = true;
  else {
    tally.bytes += OVERHEAD;
    addContent(tally, json, depth + 1);
  }
}

function addContent(tally: Tally, json: Json[] | JsonObject, depth: number): void {
  if (Array.isArray(json)) for (const item of json) addTo(tally, item, depth);
  else
    for (const key of Object.keys(json)) {
      tally.bytes += key.length + OVERHEAD;
      addTo(tally, json[key] as Json, depth);
    }
}

/** Why a value cannot be read. The steps to it are added on the way out, innermost first. */
class Unreadable extends Error {
  readonly steps: PathStep[] = [];
  /** Set if it is too much: the limit that it is more than. */
  readonly limit: string | undefined;

  constructor(found: string, limit?: string, cause?: unknown) {
    super(found, { cause });
    this.limit = limit;
  }
}

/** Adds a step to the path of what cannot be read. Errors of the caller's codecs, and of lost chunks, have their own words. */
export function locate(error: unknown, step: PathStep): unknown {
  const unreadable = toUnreadable(error);
  if (unreadable === undefined) return error;
  unreadable.steps.push(step);
  return unreadable;
}

function toUnreadable(error: unknown): Unreadable | undefined {
  if (error instanceof Unreadable) return error;
  if (error instanceof CorruptError && Object.keys(error.details).length === 0)
    return new Unreadable(error.message, undefined, error.cause);
  return error instanceof SavestateError ? undefined : new Unreadable(messageOf(error), undefined, error);
}

/** The error that the caller gets: with a code and the path. */
export function toReadError(error: unknown): unknown {
  const unreadable = toUnreadable(error);
  if (unreadable === undefined) return error;
  const { message, limit, cause } = unreadable;
  const steps = unreadable.steps.toReversed();
  const [path, place] = [formatPath(steps), formatShortPath(steps)];
  if (limit !== undefined)
    return new InvalidInputError(`Cannot read ${place}: it is ${message}. Raise ${limit} to read it.`, {
      details: { path, limit },
    });
  return new CorruptError(`Cannot read ${place}: ${message.replace(/\.$/, '')}. Run verify to see what it affects.`, {
    details: { path },
    cause,
  });
}
