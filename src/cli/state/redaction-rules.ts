import type { PathStep } from '../../core/path.ts';
import type { LinearPattern } from '../../core/pattern/linear-pattern.ts';
import { atomBytes } from '../../core/value/atom.ts';
import { ForeignInstance } from '../../core/value/class-codec.ts';
import { createError, errorClass, errorFields } from '../../core/value/error-value.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';

/** What is taken out: these texts wherever they are, what fits these patterns, and the values at these paths. */
export type RedactionRules = {
  readonly texts: readonly string[];
  readonly patterns: readonly LinearPattern[];
  readonly paths: readonly (readonly PathStep[])[];
};

/** What stands where something was taken out. */
export const REDACTED = '[redacted]';

/** Takes things out of values, and counts them. What holds nothing of the kind is given back as it is. */
export class Redaction {
  readonly #rules: RedactionRules;
  readonly #texts: readonly string[];
  places = 0;

  constructor(rules: RedactionRules) {
    this.#rules = rules;
    // The longest first: of one that holds another the rest would stay.
    this.#texts = rules.texts.flatMap(spellingsOf).sort((a, b) => b.length - a.length);
  }

  /** A state without what the rules name. */
  ofState(state: unknown): unknown {
    return this.#of(state, []);
  }

  /** Anything else that may hold the texts: results, notes, metadata. Paths are those of states, so they do not count here. */
  ofOther<Value>(value: Value): Value {
    return this.#of(value, undefined) as Value;
  }

  #of(value: unknown, path: readonly PathStep[] | undefined): unknown {
    if (path !== undefined && this.#isNamed(path)) {
      if (value !== REDACTED) this.places++;
      return REDACTED;
    }
    if (typeof value === 'string') return this.#ofText(value);
    if (typeof value === 'number' || typeof value === 'bigint') return this.#ofNumber(value);
    if (typeof value !== 'object' || value === null) return value;
    return this.#ofObject(value, path);
  }

  #ofNumber(value: number | bigint): unknown {
    const text = String(value);
    return this.#ofText(text) === text ? value : REDACTED;
  }

  #isNamed(path: readonly PathStep[]): boolean {
    return this.#rules.paths.some(
      (named) => named.length === path.length && named.every((step, at) => String(step) === String(path[at])),
    );
  }

  #ofText(text: string): string {
    let found = text;
    for (const secret of this.#texts) found = found.replaceAll(secret, REDACTED);
    for (const pattern of this.#rules.patterns) found = pattern.replace(found, REDACTED);
    if (found !== text) this.places++;
    return found;
  }

  #ofObject(value: object, path: readonly PathStep[] | undefined): unknown {
    const below = (step: PathStep) => (path === undefined ? undefined : [...path, step]);
    if (Array.isArray(value))
      return keep(
        value,
        value.map((item, at) => this.#of(item, below(at))),
      );
    if (value instanceof Set) return this.#ofSet(value);
    if (value instanceof Map) return this.#ofMap(value, below);
    if (value instanceof ForeignInstance) return this.#ofForeign(value);
    if (value instanceof Error) return this.#ofError(value, path);
    const prototype: object | null = Object.getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== null) return this.#ofAtom(value);
    const before = Object.entries(value);
    const after = before.map(([key, item]): [string, unknown] => [this.#ofText(key), this.#of(item, below(key))]);
    return areSame(before, after) ? value : Object.setPrototypeOf(Object.fromEntries(apart(after)), prototype);
  }

  #ofError(error: Error, path: readonly PathStep[] | undefined): unknown {
    const fields = errorFields(error);
    const kept = this.#ofObject(fields, path);
    return kept === fields ? error : createError(errorClass(error), kept as typeof fields);
  }

  /** What is one small text, such as an address: whole, or all of it taken out. */
  #ofAtom(atom: object): unknown {
    return textsOf(atom).every((text) => this.#ofText(text) === text) ? atom : REDACTED;
  }

  #ofSet(set: ReadonlySet<unknown>): unknown {
    const before = [...set.entries()];
    const after = before.map(([item]): [unknown, unknown] => [this.#of(item, undefined), item]);
    return before.every(([item], at) => item === after[at]?.[0]) ? set : new Set(apart(after).map(([item]) => item));
  }

  #ofMap(map: ReadonlyMap<unknown, unknown>, below: (step: PathStep) => readonly PathStep[] | undefined): unknown {
    const before = [...map];
    const after = before.map(([key, item]): [unknown, unknown] => [
      this.#of(key, undefined),
      this.#of(item, below(String(key))),
    ]);
    return areSame(before, after) ? map : new Map(apart(after));
  }

  #ofForeign(instance: ForeignInstance): unknown {
    const data = this.#of(instance.data, undefined);
    return data === instance.data ? instance : new ForeignInstance(instance.tag, data);
  }
}

/** A text as it is, and as JSON writes it inside a text, which is how the arguments of calls are kept; also where that is ASCII only. */
function spellingsOf(text: string): string[] {
  const inJson = JSON.stringify(text).slice(1, -1);
  const toEscape = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return [text, inJson, inJson.replaceAll(/[\u0080-\uffff]/g, toEscape)];
}

function keep<Item>(before: readonly Item[], after: readonly Item[]): readonly Item[] {
  return after.every((item, at) => item === before[at]) ? before : after;
}

type Entries<Key> = readonly (readonly [Key, unknown])[];

function areSame<Key>(before: Entries<Key>, after: Entries<Key>): boolean {
  return after.every(([key, item], at) => key === before[at]?.[0] && Object.is(item, before[at]?.[1]));
}

/** Entries whose keys became equal keep apart, by a number: what was under them stays. */
function apart<Key>(entries: Entries<Key>): Entries<Key> {
  const all = new Set(entries.map(([key]) => key));
  const taken = new Set<Key>();
  return entries.map(([key, item]) => {
    let free: unknown = key;
    for (let nth = 2; taken.has(free as Key) || (free !== key && all.has(free as Key)); nth++) free = `${key} ${nth}`;
    taken.add(free as Key);
    return [free as Key, item];
  });
}

/** The texts in an atom: as it is written, and as it is meant. */
function textsOf(atom: object): readonly string[] {
  if (atom instanceof URL) return [atom.href, decodeHref(atom.href), ...[...atom.searchParams].flat()];
  if (atom instanceof RegExp) return [atom.source, atom.source.replaceAll(/\\(\W)/gu, '$1')];
  if (atom instanceof SecretRef) return [atom.name];
  const bytes = atomBytes(atom);
  return bytes === undefined ? [] : [new TextDecoder().decode(bytes)];
}

/** As it is meant; what is no text in it stays as it is written. */
function decodeHref(href: string): string {
  return href.replaceAll(/(?:%[\da-f]{2})+/giu, (run) => Buffer.from(run.replaceAll('%', ''), 'hex').toString());
}
