import type { FindChunk } from '../../core/codec/decode.ts';
import { DecodedParts } from '../../core/codec/parts.ts';
import { findIn } from '../../core/codec/state-codec.ts';
import { hasErrorCode } from '../../core/errors.ts';
import type { ChunkContent, Digest } from '../../core/tree/chunk.ts';
import type { Engine } from './engine.ts';
import { migrate, readState } from './loading.ts';
import type { StoredCheckpoint } from './repository.ts';

/** Of parts at least this many bytes are kept, and at most twice as many. */
const KEPT_BYTES = 32 * 1024 * 1024;

/** Reads states to look at: of the next one only what differs is read and decoded. States share their parts: nobody may change them. */
export class StateReader {
  readonly #engine: Engine;
  readonly #parts = new DecodedParts(KEPT_BYTES);

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  async read(stored: StoredCheckpoint): Promise<unknown> {
    const { version } = this.#engine.migrations;
    const isCurrent = version === undefined || (stored.checkpoint.schemaVersion ?? 0) === version;
    if (!isCurrent) return readState(this.#engine, stored); // migrations may change what they get
    try {
      const find = await this.#load(stored.root);
      return migrate(this.#engine, stored, this.#engine.codec.decode(stored.root, find, this.#parts)).state;
    } catch (error) {
      if (!hasErrorCode(error, 'CORRUPT')) throw error;
      return readState(this.#engine, stored); // what is known may be needed anew, nested deeper; if that is not it, this says what is damaged
    }
  }

  /** Loads what is not known yet: all of it at once, or level by level. */
  async #load(root: ChunkContent): Promise<FindChunk> {
    const { repository } = this.#engine;
    if (this.#parts.isEmpty) return repository.loadChunks(root);
    const found = new Map<Digest, ChunkContent>();
    for (let level = root.refs; level.length > 0; ) {
      const wanted = [...new Set(level)].filter((digest) => !found.has(digest) && !this.#parts.has(digest));
      const chunks = await repository.readChunks(wanted);
      for (const chunk of chunks) found.set(chunk.digest, chunk);
      level = chunks.flatMap(({ refs }) => refs);
    }
    return findIn(found);
  }
}
