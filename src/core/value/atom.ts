import { CorruptError } from '../errors.ts';
import { writeTag } from './grammar.ts';
import { SecretRef } from './secret-ref.ts';

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
  return writeTag(tag, ...atomArguments(atom).map((part) => JSON.stringify(part)));
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
  if (value === undefined) return writeTag('undefined');
  if (typeof value === 'bigint') return writeTag('bigint', `"${value}"`);
  return writeTag('number', Object.is(value, -0) ? '"-0"' : `"${value}"`);
}

/** Builds an atom or a special primitive from its tag; undefined if the tag is not one of them. Throws if it was never written so. */
export function decodeAtom(tag: string, args: readonly unknown[]): { value: unknown } | undefined {
  const decode = Object.hasOwn(SIMPLE, tag) ? SIMPLE[tag] : undefined;
  if (decode === undefined && !isBytesTag(tag)) return undefined;
  const value = decode === undefined ? decodeBytes(tag, decodeBase64(args[0])) : decode(args);
  if (args.length > 1 && tag !== 'RegExp') throw new CorruptError(`A ${tag} is written with more than it has.`);
  return { value };
}

/** The bytes of a base64 text, which must be the one that they are written as. */
export function decodeBase64(written: unknown): Buffer {
  const bytes = Buffer.from(text(written), 'base64');
  if (bytes.toString('base64') !== written) throw new CorruptError('Bytes are not written as base64.');
  return bytes;
}

/** Whether a tag is that of a binary atom. */
export function isBytesTag(tag: string): boolean {
  return tag === 'Buffer' || tag === 'ArrayBuffer' || Object.hasOwn(VIEWS, tag);
}

const SIMPLE: Record<string, (args: readonly unknown[]) => unknown> = {
  undefined: () => undefined,
  bigint: ([digits]) => parseBigint(text(digits)),
  number: ([name]) => specialNumber(text(name)),
  Date: ([timeMs]) => parseDate(timeMs),
  URL: ([href]) => new URL(text(href)),
  RegExp: ([source, flags, lastIndex = 0, ...more]) => {
    const pattern = new RegExp(text(source), text(flags));
    if (pattern.flags !== flags || more.length > 0)
      throw new CorruptError('A regular expression is not written as one.');
    return Object.assign(pattern, { lastIndex: number(lastIndex) });
  },
  secret: ([name]) => new SecretRef(text(name)),
};

/** More digits take seconds to read and write. */
export const MAX_BIGINT_DIGITS = 100_000;
/** Made when it is needed, because that takes milliseconds. */
let bigintEnd: bigint | undefined;

/** Whether a bigint has more digits than can be saved. */
export function isTooLong(value: bigint): boolean {
  if (BigInt.asIntN(64, value) === value) return false;
  bigintEnd ??= 10n ** BigInt(MAX_BIGINT_DIGITS);
  return value >= bigintEnd || value <= -bigintEnd;
}

function parseBigint(written: string): bigint {
  const digits = written.startsWith('-') ? written.length - 1 : written.length;
  if (digits > MAX_BIGINT_DIGITS) throw new CorruptError(`A bigint has more than ${MAX_BIGINT_DIGITS} digits.`);
  if (!/^(?:0|-?[1-9]\d*)$/.test(written))
    throw new CorruptError(`A bigint is written as ${JSON.stringify(written.slice(0, 40))}.`);
  return BigInt(written);
}

function parseDate(timeMs: unknown): Date {
  const date = new Date(timeMs === null ? Number.NaN : number(timeMs));
  if (timeMs !== null && date.getTime() !== timeMs) throw new CorruptError(`A date is written as ${String(timeMs)}.`);
  return date;
}

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
