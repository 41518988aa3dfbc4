import { findIn, StateCodec } from '../../core/codec/state-codec.ts';
import { type ChunkContent, createChunk, type Digest } from '../../core/tree/chunk.ts';
import { Breather } from '../../storage/breather.ts';
import { checkGroupState } from '../group/group-state.ts';
import type { ExportLine } from './export.ts';
import { atLine } from './line-error.ts';
import type { LineSpool } from './line-spool.ts';

/** Checks that the group checkpoints on these lines of a checked file hold what group checkpoints hold. */
export async function checkGroups(groups: ReadonlySet<number>, spool: LineSpool): Promise<void> {
  const codec = new StateCodec({ unknownClasses: 'keep' });
  const chunks = new Map<Digest, ChunkContent>();
  const breather = new Breather();
  let at = 1; // the first line is not in the spool
  for await (const text of spool.read()) {
    at++;
    const line = JSON.parse(text) as ExportLine;
    if ('chunk' in line) chunks.set(createChunk(line.chunk).digest, line.chunk);
    else if ('checkpoint' in line && groups.has(at)) {
      try {
        checkGroupState(codec.decode(line.checkpoint.root, findIn(chunks)));
      } catch (error) {
        throw atLine(at, error);
      }
    }
    await breather.breathe();
  }
}
