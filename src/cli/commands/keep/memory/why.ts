import { withoutUndefined } from '../../../../core/defined.ts';
import { NotFoundError } from '../../../../core/errors.ts';
import type { MemoryExplanation, MemorySource } from '../../../../memory/edit/explaining.ts';
import type { CommandInput } from '../../../base/command-input.ts';
import type { Context } from '../../../base/context.ts';
import type { Output } from '../../../base/output-schemas.ts';
import { toMemoryOutput, useMemory } from '../../../memory/use-memory.ts';
import { formatTime } from '../../../terminal/format.ts';

type WhyOutput = Extract<Output<'memory'>, { sources: unknown }>;

/** Says what taught a memory, and what is left of that. */
export async function why(context: Context, input: CommandInput): Promise<undefined> {
  const id = input.need(1, 'which memory');
  const found = await useMemory(context, input, (memory, { from }) => memory.why(id, from));
  if (found.sources.length === 0)
    // it was purged
    throw new NotFoundError(`There is no memory "${id}". See: savestate memory list --user <id>`, { details: { id } });
  return context.answer(toOutput(found), () => format(found));
}

function toOutput({ id, memory, sources, supersededBy }: MemoryExplanation): WhyOutput {
  return {
    id,
    memory: memory === undefined ? null : toMemoryOutput(memory),
    ...(supersededBy !== undefined && { supersededBy }),
    sources: sources.map(({ at, operation, status, isVisible, turns, sessionId, branch, checkpointId }) => ({
      operation,
      at: at.toISOString(),
      status,
      isVisible,
      turns: turns.map((turn) => turn.memory),
      ...withoutUndefined({ sessionId, branch, checkpointId }),
    })),
  };
}

function format({ id, memory, sources, supersededBy }: MemoryExplanation): string {
  const what =
    memory === undefined ? 'not known from here' : `${memory.kind} about ${memory.subject}: ${memory.memory}`;
  const later = supersededBy === undefined ? '' : `  superseded by ${supersededBy}\n`;
  return `${id}  ${what}\n${later}${sources.map(formatSource).join('')}`;
}

function formatSource(source: MemorySource): string {
  const { operation, at, sessionId, branch, checkpointId, status, isVisible, turns } = source;
  const place = sessionId === undefined ? 'no session' : `session ${sessionId}, branch ${branch}`;
  const left = checkpointId === undefined ? '' : `, ${checkpointId} (${status})`;
  const seen = isVisible ? '' : ', not visible from here';
  const words = turns.map((turn) => `    "${turn.memory}"\n`).join('');
  return `  ${operation} ${formatTime(at)}, ${place}${left}${seen}\n${words}`;
}
