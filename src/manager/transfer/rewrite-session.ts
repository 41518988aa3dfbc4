import { findIn, StateCodec } from '../../core/codec/state-codec.ts';
import { withoutUndefined } from '../../core/defined.ts';
import { parseCheckpointBody } from '../../core/record/checkpoint.ts';
import { type CheckpointHeader, digestCheckpoint } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { type Chunk, type ChunkContent, createChunk, type Digest } from '../../core/tree/chunk.ts';
import { rewriteNote } from '../branch/notes.ts';
import { formatEffect, parseEffect } from '../effect/effect-record.ts';
import { parseTombstone, sealTombstone } from '../engine/records.ts';
import { SAID_FIELD_NAMES, SAID_FIELDS } from '../engine/save-options.ts';
import { type ExportEnd, type ExportLine, type ExportStart, sortByNeed, writeLines } from './export.ts';

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
export async function* rewriteSession(lines: AsyncIterable<string>, rewriting: Rewriting): AsyncGenerator<string> {
  yield* writeLines(rewriteLines(lines, rewriting));
}

async function* rewriteLines(lines: AsyncIterable<string>, rewriting: Rewriting) {
  let rewriter: SessionRewriter | undefined;
  for await (const text of lines) {
    const line = JSON.parse(text) as ExportStart | ExportLine | ExportEnd;
    if ('format' in line) {
      rewriter = new SessionRewriter(line.sessionId, rewriting);
      yield line;
    } else if (!('end' in line) && rewriter !== undefined) yield* rewriter.rewrite(line);
  }
}

class SessionRewriter {
  readonly #sessionId: SessionId;
  readonly #rewriting: Rewriting;
  readonly #before = new Map<Digest, ChunkContent>();
  readonly #written = new Set<Digest>();
  /** The new digest of each record, which its children hold. */
  readonly #digests = new Map<CheckpointId, Digest>();
  readonly #codec = new StateCodec({ unknownClasses: 'keep' });

  constructor(sessionId: SessionId, rewriting: Rewriting) {
    this.#sessionId = sessionId;
    this.#rewriting = rewriting;
  }

  *rewrite(line: ExportLine): Generator<ExportLine> {
    if ('chunk' in line) this.#before.set(createChunk(line.chunk).digest, line.chunk);
    else if ('checkpoint' in line) yield* this.#rewriteCheckpoint(line.checkpoint);
    else if ('effect' in line) yield* this.#rewriteEffect(line.effect);
    else if ('tombstone' in line) yield this.#rewriteTombstone(line.tombstone);
    else yield { ref: { ...line.ref, name: rewriteNote(line.ref, (said) => this.#rewriting.ofOther(said)) } };
  }

  #rewriteTombstone({ body, digest }: Extract<ExportLine, { tombstone: unknown }>['tombstone']): ExportLine {
    const tombstone = parseTombstone({ body, digest });
    this.#digests.set(tombstone.id, digest);
    const changed = { ...tombstone, reason: this.#rewriting.ofOther(tombstone.reason) };
    return { tombstone: { body: sealTombstone(changed, digest), digest } };
  }

  *#rewriteCheckpoint({
    body,
    digest,
    root,
  }: Extract<ExportLine, { checkpoint: unknown }>['checkpoint']): Generator<ExportLine> {
    const header = parseCheckpointBody(body, digest);
    const state = this.#rewriting.ofState(this.#codec.decode(root, findIn(this.#before)));
    const encoded = this.#codec.encode(state);
    yield* this.#write(encoded.chunks);
    const parentDigest = header.parentId === undefined ? undefined : this.#digests.get(header.parentId);
    const changed: CheckpointHeader = {
      ...this.#rewriteSaid(header),
      ...(parentDigest !== undefined && { parentDigest }),
      stateDigest: encoded.root.digest,
      stateBytes: encoded.sizeBytes,
    };
    const text = JSON.stringify(changed);
    this.#digests.set(header.id, digestCheckpoint(text));
    yield {
      checkpoint: {
        body: text,
        digest: digestCheckpoint(text),
        root: { text: encoded.root.text, refs: encoded.root.refs },
      },
    };
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

  *#rewriteEffect(effect: Extract<ExportLine, { effect: unknown }>['effect']): Generator<ExportLine> {
    const { branch: _, result, ...known } = parseEffect({ ...effect, sessionId: this.#sessionId });
    const place = { sessionId: this.#sessionId, branch: effect.branch };
    const { name, work } = known;
    const said = withoutUndefined({ name, work });
    const record = { ...known, ...this.#rewriting.ofOther(said) };
    if (result === undefined) {
      const { sessionId: __, ...row } = formatEffect(place, record);
      return yield { effect: row };
    }
    const encoded = this.#codec.encode(this.#rewriting.ofOther(this.#codec.decode(result, findIn(this.#before))));
    yield* this.#write(encoded.chunks);
    const { sessionId: __, ...row } = formatEffect(place, record, { text: encoded.root.text, refs: encoded.root.refs });
    yield { effect: row };
  }

  /** Chunks that were not written yet, those they refer to first. */
  *#write(chunks: readonly Chunk[]): Generator<ExportLine> {
    const fresh = chunks.filter(({ digest }) => !this.#written.has(digest));
    for (const { digest, text, refs } of sortByNeed([fresh])) {
      this.#written.add(digest);
      yield { chunk: { text, refs } };
    }
  }
}
