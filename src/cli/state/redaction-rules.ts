import type { PathStep } from '../../core/path.ts';
import { atomBytes } from '../../core/value/atom.ts';
import { ForeignInstance } from '../../core/value/class-codec.ts';
import { createError, errorClass, errorFields } from '../../core/value/error-value.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';

/** What is taken out: these texts wherever they are, what fits these patterns, and the values at these paths. */
export type RedactionRules = {
  readonly texts: readonly string[];
  readonly patterns: readonly RegExp[];
  readonly paths: readonly (readonly PathStep[])[];
};

/** What stands where something was taken out. */
export const REDACTED = '[redacted]';

/** Takes things out of values, and counts them. What holds nothing of the kind is given back as it is. */
export class Redaction {
  readonly #rules: RedactionRules;
  places = 0;

  constructor(rules: RedactionRules) {
    this.#rules = rules;
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
    if (typeof value !== 'object' || value === null) return value;
    return this.#ofObject(value, path);
  }

  #isNamed(path: readonly PathStep[]): boolean {
    return this.#rules.paths.some(
      (named) => named.length === path.length && named.every((step, at) => String(step) === String(path[at])),
    );
  }

  #ofText(text: string): string {
    let found = text;
    for (const secret of this.#rules.texts) found = found.replaceAll(secret, REDACTED);
    for (const pattern of this.#rules.patterns) found = found.replaceAll(pattern, REDACTED);
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
    const entries = Object.entries(value).map(([key, item]): [string, unknown] => [
      this.#ofText(key),
      this.#of(item, below(key)),
    ]);
    const isSame = entries.every(
      ([key, item]) => Object.hasOwn(value, key) && (value as Record<string, unknown>)[key] === item,
    );
    return isSame ? value : Object.setPrototypeOf(Object.fromEntries(entries), prototype);
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
    const items = [...set].map((item) => this.#of(item, undefined));
    return items.every((item) => set.has(item)) ? set : new Set(items);
  }

  #ofMap(map: ReadonlyMap<unknown, unknown>, below: (step: PathStep) => readonly PathStep[] | undefined): unknown {
    const entries = [...map].map(([key, item]): [unknown, unknown] => [
      this.#of(key, undefined),
      this.#of(item, below(String(key))),
    ]);
    return entries.every(([key, item]) => map.has(key) && map.get(key) === item) ? map : new Map(entries);
  }

  #ofForeign(instance: ForeignInstance): unknown {
    const data = this.#of(instance.data, undefined);
    return data === instance.data ? instance : new ForeignInstance(instance.tag, data);
  }
}

function keep<Item>(before: readonly Item[], after: readonly Item[]): readonly Item[] {
  return after.every((item, at) => item === before[at]) ? before : after;
}

/** The texts in an atom: as it is written, and as it is meant. */
function textsOf(atom: object): readonly string[] {
  if (atom instanceof URL) return [atom.href, decodeHref(atom.href), ...[...atom.searchParams].flat()];
  if (atom instanceof RegExp) return [atom.source, atom.source.replaceAll(/\\(\W)/gu, '$1')];
  if (atom instanceof SecretRef) return [atom.name];
  const bytes = atomBytes(atom);
  return bytes === undefined ? [] : [new TextDecoder().decode(bytes)];
}

function decodeHref(href: string): string {
  try {
    return decodeURIComponent(href);
  } catch {
    return href;
  }
}
