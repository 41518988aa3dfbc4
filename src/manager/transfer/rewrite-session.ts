import { type EncodedState, findIn, StateCodec } from '../../core/codec/state-codec.ts';
import { withoutUndefined } from '../../core/defined.ts';
import { parseCheckpointBody } from '../../core/record/checkpoint.ts';
import { type CheckpointHeader, digestCheckpoint } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { type ChunkContent, createChunk, type Digest } from '../../core/tree/chunk.ts';
import type { EffectRow } from '../../storage/contract.ts';
import { rewriteNote } from '../branch/notes.ts';
import { formatEffect, parseEffect } from '../effect/effect-record.ts';
import { parseTombstone, sealTombstone } from '../engine/records.ts';
import { SAID_FIELD_NAMES, SAID_FIELDS } from '../engine/save-options.ts';
import {
  type ExportEnd,
  type ExportLine,
  type ExportStart,
  type LineOf,
  sortByNeed,
  toContent,
  writeLines,
} from './export.ts';

/** Takes things out of values; whatever holds nothing of the kind is given back as it is. */
export interface Rewriting {
  /** A state. */
  ofState(state: unknown): unknown;
  /** Anything else that may hold what is taken out: results, notes, metadata. */
  ofOther<Value>(value: Value): Value;
}

/** What people and programs said in a header; the rest are ids and numbers that other records refer to. */
const REWRITTEN = ['type', ...SAID_FIELD_NAMES.filter((field) => !['id', 'key'].includes(SAID_FIELDS[field]))] as const;

/** An exported session with everything taken out that a rewriting takes out: other content, other digests, the same ids and names. */
export function rewriteSession(lines: AsyncIterable<string>, rewriting: Rewriting): AsyncGenerator<string> {
  return writeLines(new SessionRewriter(rewriting).rewrite(lines));
}

class SessionRewriter {
  readonly #rewriting: Rewriting;
  readonly #before = new Map<Digest, ChunkContent>();
  readonly #written = new Set<Digest>();
  /** The new digest of each record, which its children hold. */
  readonly #digests = new Map<CheckpointId, Digest>();
  readonly #codec = new StateCodec({ unknownClasses: 'keep' });

  constructor(rewriting: Rewriting) {
    this.#rewriting = rewriting;
  }

  async *rewrite(lines: AsyncIterable<string>): AsyncGenerator<ExportStart | ExportLine> {
    let sessionId = '' as SessionId;
    for await (const text of lines) {
      const line = JSON.parse(text) as ExportStart | ExportLine | ExportEnd;
      if ('format' in line) {
        ({ sessionId } = line);
        yield line;
      } else if ('chunk' in line) this.#before.set(createChunk(line.chunk).digest, line.chunk);
      else if ('checkpoint' in line) yield* this.#rewriteCheckpoint(line.checkpoint);
      else if ('effect' in line) yield* this.#rewriteEffect({ ...line.effect, sessionId });
      else if ('tombstone' in line) yield this.#rewriteTombstone(line.tombstone);
      else if ('ref' in line)
        yield { ref: { ...line.ref, name: rewriteNote(line.ref, (said) => this.#rewriting.ofOther(said)) } };
    }
  }

  #rewriteTombstone(line: LineOf<'tombstone'>): ExportLine {
    const tombstone = parseTombstone(line);
    const { digest } = line;
    this.#digests.set(tombstone.id, digest);
    const changed = { ...tombstone, reason: this.#rewriting.ofOther(tombstone.reason) };
    return { tombstone: { body: sealTombstone(changed, digest), digest } };
  }

  *#rewriteCheckpoint({ body, digest: before, root: given }: LineOf<'checkpoint'>): Generator<ExportLine> {
    const header = parseCheckpointBody(body, before);
    const { root, sizeBytes } = yield* this.#rewriteValue(given, (state) => this.#rewriting.ofState(state));
    const parentDigest = header.parentId && this.#digests.get(header.parentId);
    const changed: CheckpointHeader = {
      ...this.#rewriteSaid(header),
      ...(parentDigest !== undefined && { parentDigest }),
      stateDigest: root.digest,
      stateBytes: sizeBytes,
    };
    const text = JSON.stringify(changed);
    const digest = digestCheckpoint(text);
    this.#digests.set(header.id, digest);
    yield { checkpoint: { body: text, digest, root: toContent(root) } };
  }

  #rewriteSaid(header: CheckpointHeader): CheckpointHeader {
    const said = REWRITTEN.flatMap((field) =>
      header[field] === undefined ? [] : [[field, this.#rewriting.ofOther(header[field])]],
    );
    const { idempotencyKey: key, ...rest } = header;
    const keeps = key !== undefined && this.#rewriting.ofOther(key) === key; // half a key would be another one's
    return {
      ...rest,
      ...(Object.fromEntries(said) as Partial<CheckpointHeader>),
      ...(keeps && { idempotencyKey: key }),
    };
  }

  *#rewriteEffect(row: EffectRow): Generator<ExportLine> {
    const { branch, result, ...known } = parseEffect(row);
    const { name, work } = known;
    const record = { ...known, ...this.#rewriting.ofOther(withoutUndefined({ name, work })) };
    const encoded = result && (yield* this.#rewriteValue(result, (value) => this.#rewriting.ofOther(value)));
    const place = { sessionId: row.sessionId, branch };
    const { sessionId: _, ...effect } = formatEffect(place, record, encoded && toContent(encoded.root));
    yield { effect };
  }

  /** Writes the chunks of a state or result that were not written yet, those they refer to first; returns its root. */
  *#rewriteValue(
    root: ChunkContent,
    change: (value: unknown) => unknown,
  ): Generator<ExportLine, Pick<EncodedState, 'root' | 'sizeBytes'>> {
    const encoded = this.#codec.encode(change(this.#codec.decode(root, findIn(this.#before))));
    const fresh = encoded.chunks.filter(({ digest }) => !this.#written.has(digest));
    for (const { digest, text, refs } of sortByNeed(fresh)) {
      this.#written.add(digest);
      yield { chunk: { text, refs } };
    }
    return encoded;
  }
}
