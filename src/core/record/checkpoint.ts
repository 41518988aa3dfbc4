import { StateCodec } from '../codec/state-codec.ts';
import { CorruptError, InvalidInputError } from '../errors.ts';
import { freezeState } from '../freeze.ts';
import type { Digest } from '../tree/chunk.ts';
import { TAG_START } from '../value/grammar.ts';
import type { JsonValue } from '../value/json.ts';
import { checkHeader, decodeField, HEADER_KEYS } from './check-header.ts';
import { type CheckpointHeader, digestCheckpoint } from './checkpoint-header.ts';
import { encryptedError } from './sealed-name.ts';

/** A checkpoint with its whole state, as plain JSON; what storages that keep whole checkpoints store. */
export type CheckpointJson = CheckpointHeader & { readonly digest: Digest; readonly state?: JsonValue };

/** An immutable record of one moment: who, when, why, from where; the state is loaded separately. */
export class Checkpoint {
  readonly header: CheckpointHeader;
  readonly digest: Digest;
  /** The state in the codec's JSON form; only on checkpoints that go to or come from a storage of whole checkpoints. */
  readonly encodedState: JsonValue | undefined;

  constructor(header: CheckpointHeader, digest: Digest, encodedState?: JsonValue) {
    this.header = header;
    this.digest = digest;
    this.encodedState = encodedState;
    Object.freeze(this);
  }

  get id() {
    return this.header.id;
  }
  get sessionId() {
    return this.header.sessionId;
  }
  get branch() {
    return this.header.branch;
  }
  get parentId() {
    return this.header.parentId;
  }
  get sequence() {
    return this.header.sequence;
  }
  get type() {
    return this.header.type;
  }
  get trigger() {
    return this.header.trigger;
  }
  get agentId() {
    return this.header.agentId;
  }
  get agentType() {
    return this.header.agentType;
  }
  get userId() {
    return this.header.userId;
  }
  get status() {
    return this.header.status;
  }
  get timestamp() {
    return new Date(this.header.timestampMs);
  }
  get name() {
    return this.header.name;
  }
  get note() {
    return this.header.note;
  }
  get author() {
    return this.header.author;
  }
  get reason() {
    return this.header.reason;
  }
  get metadata() {
    return decodeField(this.header.metadata) as { readonly [key: string]: unknown } | undefined;
  }
  get collectedFields() {
    return decodeField(this.header.collectedFields);
  }
  get requiredFields() {
    return decodeField(this.header.requiredFields);
  }
  get contextSummary() {
    return this.header.contextSummary;
  }
  get fingerprint() {
    return decodeField(this.header.fingerprint);
  }
  get schemaVersion() {
    return this.header.schemaVersion;
  }
  get stateDigest() {
    return this.header.stateDigest;
  }
  get stateBytes() {
    return this.header.stateBytes;
  }

  toJSON(): CheckpointJson {
    const { header, digest, encodedState: state } = this;
    return state === undefined ? { ...header, digest } : { ...header, digest, state };
  }

  /** Reads what `toJSON` wrote; throws a CorruptError if the header or the state does not match its digest. */
  static fromJSON(json: unknown): Checkpoint {
    if (typeof json !== 'object' || json === null || !('digest' in json)) {
      throw new InvalidInputError('This is not a checkpoint: expected the object that Checkpoint.toJSON() made.');
    }
    const { digest, state, ...rest } = json as CheckpointJson;
    const body = formatJson(rest);
    if (digestCheckpoint(body) !== digest && isReordered(json)) {
      throw new CorruptError(
        'The keys of a checkpoint are in another order than they were written, so that it does not match its digest. Store the text of JSON.stringify(checkpoint) as it is; in PostgreSQL as text or json, not as jsonb.',
        { details: { digest } },
      );
    }
    const header = parseCheckpointBody(body, digest);
    if (state !== undefined) checkState(header, state);
    return new Checkpoint(header, digest, state);
  }
}

/** Keys that every checkpoint has, as they are written. */
const KEY_ORDER = [...HEADER_KEYS, 'digest'];

function isReordered(json: object): boolean {
  const keys = Object.keys(json).filter((key) => KEY_ORDER.includes(key));
  return keys.length === KEY_ORDER.length && keys.join() !== KEY_ORDER.join();
}

/** Reads a stored header; throws a CorruptError if the text does not match its digest, or is no header. */
export function parseCheckpointBody(body: string, digest: Digest): CheckpointHeader {
  if (digestCheckpoint(body) !== digest) {
    if (/"sealed":"[^"]+"\}$/.test(body)) throw encryptedError();
    throw new CorruptError(
      'A checkpoint record is damaged: it does not match its digest. Run verify to see what it affects.',
      {
        details: { digest },
      },
    );
  }
  return freezeState(checkHeader(parseBody(body), { hasTags: body.includes(TAG_START) }));
}

function parseBody(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch (cause) {
    throw new CorruptError('A checkpoint record is damaged: it is not JSON. Run verify.', { cause });
  }
}

function formatJson(json: object): string {
  try {
    return JSON.stringify(json);
  } catch (cause) {
    throw new InvalidInputError('This is not a checkpoint: it cannot be written as JSON.', { cause });
  }
}

/** The digest covers the state as it was saved; whoever holds the JSON may have changed it since. */
function checkState({ id, stateDigest }: CheckpointHeader, json: JsonValue): void {
  const codec = new StateCodec({
    unknownClasses: 'keep',
    limits: { maxNodes: Number.POSITIVE_INFINITY, maxBytes: Number.POSITIVE_INFINITY },
  });
  const found = codec.encode(codec.decodeJson(json)).root.digest;
  if (found === stateDigest) return;
  throw new CorruptError(
    `The state of checkpoint ${id} was changed after it was written: its digest is ${found}, and the checkpoint says ${stateDigest} (the order of keys counts, too). To continue from a changed state, fork the stored checkpoint with an edit.`,
    { details: { id } },
  );
}
