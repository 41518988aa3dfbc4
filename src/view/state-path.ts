import { InvalidInputError, NotFoundError } from '../core/errors.ts';
import { isPlainObject } from '../core/options.ts';
import { formatPath, type PathStep, parsePointer } from '../core/path.ts';
import { ForeignInstance } from '../core/value/class-codec.ts';
import { toJsonForm } from './json-form.ts';
import type { node, Shape } from './shapes.ts';

const STEP = /\.?([A-Za-z_$][\w$-]*)|\[(-?\d+)\]|\[("(?:[^"\\]|\\.)*")\]|\.(\d+)/y;

/** Reads a path into a state: `$.messages[3].text`, `messages[-1]`, `["odd key"]`, or a JSON Pointer such as `/messages/3`. */
export function parseStatePath(text: string): PathStep[] {
  if (text.startsWith('/')) return parsePointer(text);
  const rest = text.startsWith('$') ? text.slice(1) : text;
  const steps: PathStep[] = [];
  STEP.lastIndex = 0;
  while (STEP.lastIndex < rest.length) {
    const [, name, index, quoted, digits] = STEP.exec(rest) ?? [];
    if (name !== undefined) steps.push(name);
    else if (index !== undefined || digits !== undefined) steps.push(Number(index ?? digits));
    else if (quoted !== undefined) steps.push(JSON.parse(quoted) as string);
    else throw new InvalidInputError(`"${text}" is no path. Write it like $.messages[3].text or /messages/3/text.`);
  }
  return steps;
}

/** The value at a path; undefined if there is none. */
export function findAt(state: unknown, path: readonly PathStep[]): unknown {
  return path.reduce((value, step) => stepInto(value, step), state);
}

/** The value at a path, or a NotFoundError that says how far it went. */
export function openAt(state: unknown, path: readonly PathStep[]): unknown {
  let value = state;
  for (const [at, step] of path.entries()) {
    if (!hasStep(value, step)) {
      throw new NotFoundError(
        `The state has no ${formatPath(path)}: ${formatPath(path.slice(0, at))} is ${describe(value)}.`,
      );
    }
    value = stepInto(value, step);
  }
  return value;
}

function stepInto(value: unknown, step: PathStep): unknown {
  if (Array.isArray(value)) return value.at(Number(step));
  if (value instanceof Map) return value.get(step) ?? value.get(String(step));
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined;
  return (value as Record<PathStep, unknown>)[step];
}

function hasStep(value: unknown, step: PathStep): boolean {
  if (Array.isArray(value))
    return Number.isInteger(Number(step)) && -value.length <= Number(step) && Number(step) < value.length;
  if (value instanceof Map) return value.has(step) || value.has(String(step));
  return typeof value === 'object' && value !== null && Object.hasOwn(value, step);
}

function describe(value: unknown): string {
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : `a ${typeof value}`;
  const keys = Object.keys(value);
  const shown = keys.slice(0, 12).join(', ');
  return `an object with ${keys.length === 0 ? 'no keys' : `the keys ${shown}${keys.length > 12 ? ', …' : ''}`}`;
}

/** Puts a value at a path of a state that is the caller's own; the last step may be new. Returns the state. */
export function setAt(state: unknown, path: readonly PathStep[], value: unknown): unknown {
  const last = path.at(-1);
  if (last === undefined) return value;
  const parent = openAt(state, path.slice(0, -1));
  if (parent instanceof Map) parent.set(last, value);
  else if (Array.isArray(parent)) setElement(parent, last, value);
  else if (parent instanceof ForeignInstance && last !== 'data') throw noSuchField(path);
  else if (typeof parent === 'object' && parent !== null) {
    Object.defineProperty(parent, last, { value, writable: true, enumerable: true, configurable: true });
  } else throw new InvalidInputError(`${formatPath(path.slice(0, -1))} is ${describe(parent)}; it has no ${last}.`);
  return state;
}

/** What is kept of an instance is its data: a field beside that would be lost without a word. */
function noSuchField(path: readonly PathStep[]): InvalidInputError {
  const [instance, field] = [path.slice(0, -1), path.at(-1) ?? ''];
  return new InvalidInputError(
    `${formatPath(instance)} is an instance of a class, whose fields are in its data. Set ${formatPath([...instance, 'data', field])} instead.`,
  );
}

function setElement(list: unknown[], step: PathStep, value: unknown): void {
  const at = step === '-' ? list.length : Number(step) < 0 ? list.length + Number(step) : Number(step);
  if (!Number.isInteger(at) || at < 0 || at > list.length)
    throw new InvalidInputError(`A list of ${list.length} has no place ${step}.`);
  list[at] = value;
}

/** Cuts `revision:path` in two; the path is undefined if there is none. */
export function splitPath(text: string): [revision: string, path: string | undefined] {
  const inTime = text.lastIndexOf('}'); // a time may have colons of its own
  const at = text.indexOf(':', Math.max(0, inTime));
  return at < 0 ? [text, undefined] : [text.slice(0, at) || '@', text.slice(at + 1)];
}

const PREVIEW_CHARS = 200;

/** Describes a value; one of more than `maxBytes` is left out. */
export function describeNode(path: readonly PathStep[], value: unknown, maxBytes: number): Shape<typeof node> {
  const form = toJsonForm(value) ?? null;
  const text = JSON.stringify(form);
  const parts = partsOf(value);
  const count = typeof value === 'string' ? value.length : parts?.length;
  const isCut = parts === undefined && text.length > maxBytes;
  const isShown = parts === undefined && !isCut;
  return {
    key: path.at(-1) ?? '$',
    path: formatPath(path),
    type: typeOf(value),
    ...(count !== undefined && { count }),
    bytes: text.length,
    ...(isShown ? { value: form } : { preview: (typeof form === 'string' ? form : text).slice(0, PREVIEW_CHARS) }),
    isCut,
  };
}

/** The parts of a value by their steps; undefined if it has none. */
export function partsOf(value: unknown): readonly (readonly [PathStep, unknown])[] | undefined {
  if (Array.isArray(value)) return value.map((item, at) => [at, item]);
  if (value instanceof Map) return [...value].map(([key, item]) => [typeof key === 'number' ? key : String(key), item]);
  if (value instanceof Set) return [...value].map((item, at) => [at, item]);
  if (value instanceof ForeignInstance) return [['data', value.data]];
  return isPlainObject(value) ? Object.entries(value) : undefined;
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'list';
  if (typeof value !== 'object') return typeof value;
  if (value instanceof ForeignInstance) return value.tag;
  return isPlainObject(value) ? 'object' : value.constructor.name;
}
