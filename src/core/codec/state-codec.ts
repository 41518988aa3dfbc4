import { CorruptError, InvalidInputError } from '../errors.ts';
import { type Chunk, type ChunkContent, createChunk, type Digest } from '../tree/chunk.ts';
import { Shadow, type ShadowChild } from '../tree/shadow.ts';
import { sizeOf } from '../tree/size.ts';
import { atomTag } from '../value/atom.ts';
import { type ClassCodec, ClassCodecs, type UnknownClasses } from '../value/class-codec.ts';
import { DEFAULT_LIMITS, type ValueLimits } from '../value/format.ts';
import type { JsonValue } from '../value/json.ts';
import { Composer, type Redact } from './compose.ts';
import { Decoder, type FindChunk } from './decode.ts';
import { NearState } from './near-state.ts';
import type { Parts } from './parts.ts';
import { copyPlainJson } from './plain-json.ts';
import { Walker, type WalkOptions } from './walk.ts';

/** What a state was last encoded to; pass it to the next `encode` so that only the changes cost. */
export type EncodedState = {
  readonly root: Chunk;
  /** The chunks that were not part of the state before. */
  readonly chunks: readonly Chunk[];
  readonly sizeBytes: number;
  readonly shadow: ShadowChild;
};

/** A state as it was when it was read. What is stored of it is composed later, whatever becomes of the live one. */
export type CapturedState = {
  readonly shadow: ShadowChild;
  readonly before: EncodedState | undefined;
  /** What was captured earlier and is in part taken over. */
  readonly adopted: readonly CapturedState[];
  /** What it was composed to, once it was; or why it cannot be. */
  encoded?: EncodedState;
  failure?: { readonly error: unknown };
};

/** What was found to be in states; kept as long as what it was found in. */
const nearStates = new WeakMap<Shadow, NearState>();

const PLAIN_PROTOTYPES: ReadonlySet<object> = new Set([
  Object.prototype,
  Array.prototype,
  Map.prototype,
  Set.prototype,
]);

/** How states are encoded: the caller's classes, limits and redaction. */
export type StateCodecOptions = {
  readonly classes?: readonly ClassCodec[] | undefined;
  readonly unknownClasses?: UnknownClasses | undefined;
  readonly limits?: Partial<ValueLimits> | undefined;
  readonly redact?: Redact | undefined;
};

/** Encodes states to chunks and back. Pure: the same state gives the same chunks, whatever led to it. */
export class StateCodec {
  readonly #classes: ClassCodecs;
  /** Hold for what is read as for what is saved. */
  readonly limits: ValueLimits;
  readonly #redact: Redact | undefined;

  constructor({ classes, unknownClasses, limits, redact }: StateCodecOptions = {}) {
    this.#classes = new ClassCodecs(classes, unknownClasses);
    this.limits = { ...DEFAULT_LIMITS, ...limits };
    this.#redact = redact;
  }

  /** The same limits and redaction without the caller's classes: for what is read where those are not known. */
  withoutClasses(): StateCodec {
    return new StateCodec({ limits: this.limits, redact: this.#redact });
  }

  /** Whether an object is a value of its own (a date, bytes, an error, an instance with a codec) rather than somebody's agent. */
  isValue(value: object): boolean {
    const prototype: object | null = Object.getPrototypeOf(value);
    if (prototype === null || PLAIN_PROTOTYPES.has(prototype) || value instanceof Error) return true;
    return atomTag(prototype) !== undefined || this.#classes.forInstance(value, prototype) !== undefined;
  }

  /** Encodes a state against the one before; throws an InvalidInputError that names the path of what cannot be saved. */
  encode(state: unknown, before?: EncodedState): EncodedState {
    return this.compose(this.capture(state, before));
  }

  /** Reads a state, against the one before: the part of `encode` that must happen before the state changes. */
  capture(state: unknown, before?: EncodedState, options?: WalkOptions): CapturedState {
    const walker = new Walker(this.#classes, this.limits, options);
    const shadow = walker.walk(state, before?.shadow);
    this.#checkSize(sizeOf(shadow));
    return { shadow, before, adopted: walker.adopted };
  }

  /** Makes the chunks of a captured state. A state is composed before the next one is captured against it. */
  compose(captured: CapturedState): EncodedState {
    if (captured.failure !== undefined) throw captured.failure.error;
    try {
      captured.encoded ??= this.#compose(captured);
      return captured.encoded;
    } catch (error) {
      // Some of it may be taken for stored now.
      captured.failure = { error };
      throw error;
    }
  }

  #compose({ shadow, before, adopted }: CapturedState): EncodedState {
    if (before !== undefined && shadow instanceof Shadow && shadow === before.shadow) return { ...before, chunks: [] };
    const chunks: Chunk[] = [];
    for (const earlier of adopted) for (const chunk of this.compose(earlier).chunks) chunks.push(chunk);
    const composer = new Composer(this.#redact);
    const root = createChunk(composer.composeRoot(shadow));
    for (const chunk of composer.chunks.values()) chunks.push(chunk); // a spread would put all of them on the stack
    return { root, chunks, sizeBytes: sizeOf(shadow), shadow };
  }

  /** The digest of a value as it would be stored, and the secrets that are left out of it, in their order. */
  digest(value: unknown): { readonly digest: Digest; readonly secrets: readonly string[] } {
    const { shadow } = this.capture(value);
    let found: string[] = [];
    const redact = this.#redact;
    const composer = new Composer(redact && ((text, key) => redact(text, key, (secret) => found.push(secret))));
    const { digest } = createChunk(composer.composeRoot(shadow));
    if (found.length === 0) return { digest, secrets: found };
    found = []; // where a list is cut, its items are composed more than once; in one flat text, once
    composer.composeFlat(shadow);
    return { digest, secrets: found };
  }

  #checkSize(sizeBytes: number): void {
    if (sizeBytes <= this.limits.maxBytes) return;
    throw new InvalidInputError(
      `The state has about ${sizeBytes} bytes, and the limit is ${this.limits.maxBytes}. Save less, or raise limits.maxBytes.`,
      { details: { path: '$', sizeBytes } },
    );
  }

  /** The JSON form of a value with nothing split off: for metadata, and for people to read. */
  encodeJson(value: unknown): JsonValue {
    const redact = this.#redact;
    const isClean = redact === undefined || (typeof value === 'string' && redact(value, undefined) === undefined);
    const plain = isClean ? copyPlainJson(value) : undefined;
    if (plain !== undefined) return plain;
    const shadow = new Walker(this.#classes, this.limits).walk(value, undefined);
    return JSON.parse(new Composer(this.#redact).composeFlat(shadow)) as JsonValue;
  }

  /** Reads what `encodeJson` made. */
  decodeJson(json: JsonValue): unknown {
    return this.decode({ text: JSON.stringify(json), refs: [] }, findIn(new Map()));
  }

  /** @internal A copy as saving and loading would make it, which shares nothing with the value. */
  copy<Value>(value: Value): Value {
    return this.decodeJson(this.encodeJson(value)) as Value;
  }

  /** Decodes a state. Every call makes new objects, but for those of `parts`: nothing is shared with another call or with what was saved. */
  decode(root: ChunkContent, find: FindChunk, parts?: Parts): unknown {
    return new Decoder(find, { codecs: this.#classes, limits: this.limits, parts }).decode(root);
  }

  /** Decodes parts of some states, which together may hold what these may. */
  partDecoder(find: FindChunk, states: number): (content: ChunkContent) => unknown {
    const { maxDepth, maxNodes, maxBytes } = this.limits;
    const limits = { maxDepth, maxNodes: maxNodes * states, maxBytes: maxBytes * states };
    const decoder = new Decoder(find, { codecs: this.#classes, limits });
    return (content) => decoder.decode(content);
  }

  /** What need not be read to decode states like this one; undefined if what was stored is not what was given. */
  nearState({ shadow }: EncodedState): NearState | undefined {
    if (this.#redact !== undefined || !(shadow instanceof Shadow)) return undefined;
    const near = nearStates.get(shadow) ?? new NearState(shadow);
    nearStates.set(shadow, near);
    return near;
  }

  /** Decodes a state together with what `encode` needs to save changes of it cheaply. */
  decodeForEditing(root: Chunk, find: FindChunk): EditableState {
    const decoder = new Decoder(find, { codecs: this.#classes, limits: this.limits, isForEditing: true });
    const { state, shadow } = decoder.decodeForEditing(root);
    const encoded = { root, chunks: [], sizeBytes: sizeOf(shadow), shadow };
    return { state, encoded, mayHoldSecrets: decoder.mayHoldSecrets };
  }
}

/** A decoded state, what it was encoded to, and whether a secret may have been left out of it. */
export type EditableState = {
  readonly state: unknown;
  readonly encoded: EncodedState;
  readonly mayHoldSecrets: boolean;
};

/**
 * A part of an encoded state, by the keys that lead to it. Put in place of the same part into a state that is encoded next against the
 * same one, it costs nothing, whatever became of the live value. Undefined if there is no such part.
 */
export function encodedPart(
  encoded: Pick<EncodedState, 'shadow'>,
  path: readonly string[],
): { readonly part: unknown } | undefined {
  let part = encoded.shadow;
  for (const key of path) {
    const at = part instanceof Shadow && isObject(part) ? part.keys.indexOf(key) : -1;
    if (at < 0) return undefined;
    part = (part as Shadow).children[at];
  }
  return { part };
}

/** The keys of an object inside an encoded state; none if there is no such object. */
export function encodedKeys(encoded: Pick<EncodedState, 'shadow'>, path: readonly string[]): readonly string[] {
  const found = encodedPart(encoded, path)?.part;
  return found instanceof Shadow && isObject(found) ? found.keys : [];
}

function isObject({ kind }: Shadow): boolean {
  return kind === 'object' || kind === 'bare';
}

/** Finds chunks in a map; for callers that loaded them all. */
export function findIn(chunks: ReadonlyMap<Digest, ChunkContent>): FindChunk {
  return (digest) => {
    const chunk = chunks.get(digest);
    if (chunk === undefined) {
      throw new CorruptError(`Chunk ${digest} is missing. Run verify to see what it affects.`, { details: { digest } });
    }
    return chunk;
  };
}
