import { CorruptError } from '../errors.ts';
import { SecretRef } from './secret-ref.ts';

/** Objects without children: their whole content is one small text. */
export type Atom = Date | URL | RegExp | ArrayBuffer | ArrayBufferView | SecretRef;

type View = ArrayBufferView & { constructor: { name: string } };

const VIEWS = {
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
  DataView,
} as const;

const ATOM_PROTOTYPES = new Map<object, string>([
  [Date.prototype, 'Date'],
  [URL.prototype, 'URL'],
  [RegExp.prototype, 'RegExp'],
  [ArrayBuffer.prototype, 'ArrayBuffer'],
  [Buffer.prototype, 'Buffer'],
  [SecretRef.prototype, 'secret'],
  ...Object.entries(VIEWS).map(([name, view]): [object, string] => [view.prototype, name]),
]);

/** The tag of an atom's class, or undefined if the class is not one of the closed set. */
export function atomTag(prototype: object): string | undefined {
  return ATOM_PROTOTYPES.get(prototype);
}

/** The bytes behind a binary atom, not copied; undefined for the others. */
export function atomBytes(atom: object): Uint8Array | undefined {
  if (atom instanceof ArrayBuffer) return new Uint8Array(atom);
  if (ArrayBuffer.isView(atom)) return new Uint8Array(atom.buffer, atom.byteOffset, atom.byteLength);
  return undefined;
}

/** The tagged JSON of an atom. */
export function encodeAtom(tag: string, atom: object): string {
  return `{"$":[${JSON.stringify(tag)}${atomArguments(atom)
    .map((part) => `,${JSON.stringify(part)}`)
    .join('')}]}`;
}

function atomArguments(atom: object): (string | number | null)[] {
  if (atom instanceof Date) return [Number.isNaN(atom.getTime()) ? null : atom.getTime()];
  if (atom instanceof URL) return [atom.href];
  if (atom instanceof RegExp)
    return atom.lastIndex === 0 ? [atom.source, atom.flags] : [atom.source, atom.flags, atom.lastIndex];
  if (atom instanceof SecretRef) return [atom.name];
  return [encodeBytes(atomBytes(atom) ?? new Uint8Array())];
}

/** Base64 of bytes. */
export function encodeBytes(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}

/** The tagged JSON of a primitive that JSON cannot hold. */
export function encodeSpecial(value: undefined | bigint | number): string {
  if (value === undefined) return '{"$":["undefined"]}';
  if (typeof value === 'bigint') return `{"$":["bigint","${value}"]}`;
  return `{"$":["number","${Object.is(value, -0) ? '-0' : value}"]}`;
}

/** Builds an atom or a special primitive from its tag; undefined if the tag is not one of them. */
export function decodeAtom(tag: string, args: readonly unknown[]): { value: unknown } | undefined {
  if (Object.hasOwn(SIMPLE, tag)) return { value: (SIMPLE[tag] as (args: readonly unknown[]) => unknown)(args) };
  return isBytesTag(tag) ? { value: decodeBytes(tag, Buffer.from(text(args[0]), 'base64')) } : undefined;
}

/** Whether a tag is that of a binary atom. */
export function isBytesTag(tag: string): boolean {
  return tag === 'Buffer' || tag === 'ArrayBuffer' || Object.hasOwn(VIEWS, tag);
}

const SIMPLE: Record<string, (args: readonly unknown[]) => unknown> = {
  undefined: () => undefined,
  bigint: ([digits]) => BigInt(text(digits)),
  number: ([name]) => specialNumber(text(name)),
  Date: ([timeMs]) => new Date(timeMs === null ? Number.NaN : number(timeMs)),
  URL: ([href]) => new URL(text(href)),
  RegExp: ([source, flags, lastIndex = 0]) =>
    Object.assign(new RegExp(text(source), text(flags)), { lastIndex: number(lastIndex) }),
  secret: ([name]) => new SecretRef(text(name)),
};

const SPECIAL_NUMBERS = new Map([
  ['NaN', Number.NaN],
  ['Infinity', Number.POSITIVE_INFINITY],
  ['-Infinity', Number.NEGATIVE_INFINITY],
  ['-0', -0],
]);

function specialNumber(name: string): number {
  const value = SPECIAL_NUMBERS.get(name);
  if (value === undefined) throw new CorruptError(`A stored number is called ${JSON.stringify(name)}.`);
  return value;
}

/** Builds a binary atom on a buffer of its own, so that views with wider elements are aligned. */
export function decodeBytes(tag: string, bytes: Uint8Array): object {
  if (tag === 'Buffer') return Buffer.from(bytes);
  const { buffer } = new Uint8Array(bytes);
  if (tag === 'ArrayBuffer') return buffer;
  if (!isBytesTag(tag)) throw new CorruptError(`Bytes are stored as ${JSON.stringify(tag)}, which is unknown.`);
  return new (VIEWS[tag as keyof typeof VIEWS] as new (buffer: ArrayBuffer) => View)(buffer);
}

function text(value: unknown): string {
  if (typeof value !== 'string') throw new CorruptError('A tagged value lacks its text.');
  return value;
}

function number(value: unknown): number {
  if (typeof value !== 'number') throw new CorruptError('A tagged value lacks its number.');
  return value;
}
