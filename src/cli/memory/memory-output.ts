import type { MemoryHit } from '../../memory/find/finding.ts';
import type { MemoryRecord } from '../../memory/storage/memory-record.ts';
import type { Output } from '../base/output-schemas.ts';

/** A memory as `--json` tells it. */
export type MemoryOutput = Extract<Output<'memory'>, readonly unknown[]>[number];

/** A memory for `--json`. */
export function toMemoryOutput(memory: MemoryRecord | MemoryHit): MemoryOutput {
  const { id, kind, subject, slot, userId, agentId, trust, reinforcements, supersededBy } = memory;
  return {
    id,
    memory: memory.memory,
    kind,
    subject,
    trust,
    reinforcements,
    observedAt: memory.observedAt.toISOString(),
    ...(slot !== undefined && { slot }),
    ...(userId !== undefined && { userId }),
    ...(agentId !== undefined && { agentId }),
    ...(supersededBy !== undefined && { supersededBy }),
    ...('score' in memory && { score: memory.score }),
  };
}
