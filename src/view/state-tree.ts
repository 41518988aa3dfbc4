import { formatPath, type PathStep } from '../core/path.ts';
import { ForeignInstance } from '../core/value/class-codec.ts';
import { toJsonForm } from './json-form.ts';

/** A value of a state as a row of a tree: what it is and how large, with its content if that is small. */
export type StateNode = {
  readonly key: PathStep;
  readonly path: string;
  readonly type: string;
  /** Elements of a list or an object, characters of a string. */
  readonly count?: number;
  /** About how long it is as JSON. */
  readonly bytes: number;
  readonly value?: unknown;
  readonly preview?: string;
  /** The value is left out because it is large. */
  readonly isCut: boolean;
};

const PREVIEW_CHARS = 200;

/** Describes a value; one of more than `maxBytes` is left out. */
export function describeNode(path: readonly PathStep[], value: unknown, maxBytes: number): StateNode {
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
    ...(isShown ? { value: form } : { preview: previewOf(form, text) }),
    isCut,
  };
}

function previewOf(form: unknown, text: string): string {
  return (typeof form === 'string' ? form : text).slice(0, PREVIEW_CHARS);
}

/** The parts of a value by their steps; undefined if it has none. */
export function partsOf(value: unknown): readonly (readonly [PathStep, unknown])[] | undefined {
  if (Array.isArray(value)) return value.map((item, at) => [at, item]);
  if (value instanceof Map) return [...value].map(([key, item]) => [typeof key === 'number' ? key : String(key), item]);
  if (value instanceof Set) return [...value].map((item, at) => [at, item]);
  if (value instanceof ForeignInstance) return [['data', value.data]];
  return isPlain(value) ? Object.entries(value as object) : undefined;
}

function isPlain(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'list';
  if (typeof value !== 'object') return typeof value;
  if (value instanceof ForeignInstance) return value.tag;
  return isPlain(value) ? 'object' : value.constructor.name;
}
