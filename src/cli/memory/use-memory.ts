import { withoutUndefined } from '../../core/defined.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { MemoryHit } from '../../memory/find/finding.ts';
import type { ViewOptions } from '../../memory/log/views.ts';
import type { Memory } from '../../memory/memory.ts';
import type { MemoryRecord, MemoryScope } from '../../memory/storage/memory-record.ts';
import { storageExists } from '../../storage/open/address.ts';
import type { CommandInput } from '../base/command-input.ts';
import type { Context } from '../base/context.ts';
import type { Output } from '../base/output-schemas.ts';
import { resolveRevision } from '../revision/resolve-revision.ts';
import { openMemory } from './open-memory.ts';

/** Whose memories a command is about, and from where it looks. */
export type MemoryView = {
  /** What was named, else the user that `run` and `repl` would talk with, which is said. */
  readonly scope: () => MemoryScope;
  readonly named: MemoryScope;
  readonly from: ViewOptions;
};

/** Opens the memory for a command and closes it afterwards. */
export async function useMemory<Result>(
  context: Context,
  input: CommandInput,
  work: (memory: Memory, view: MemoryView) => Promise<Result>,
): Promise<Result> {
  const asOf = input.text('asOf');
  const named = readScope(input);
  const manager = await findManager(context, asOf !== undefined);
  const memory = await openMemory(context, { named: input.text('memory'), manager });
  try {
    const checkpoint = asOf === undefined ? undefined : await resolveRevision(await context.workspace(), asOf);
    const from = checkpoint === undefined ? {} : { asOf: checkpoint.id };
    return await work(memory, { scope: () => findScope(context, named), named, from });
  } finally {
    await memory.close();
  }
}

/** Memory follows branches if there are checkpoints to follow; it may also be used without any. */
async function findManager(context: Context, isNeeded: boolean): Promise<CheckpointManager | undefined> {
  if (!isNeeded && !storageExists(await context.address())) return undefined;
  return (await context.workspace()).manager;
}

function readScope(input: CommandInput): MemoryScope {
  return withoutUndefined({ userId: input.text('user'), agentId: input.text('agent') });
}

function findScope(context: Context, named: MemoryScope): MemoryScope {
  if (Object.keys(named).length > 0) return named;
  const userId = context.user;
  context.say(`This is the memory of "${userId}"; --user <id> or --agent <id> shows another.`);
  return { userId };
}

/** A memory as `--json` tells it. */
export type MemoryOutput = Extract<Output<'memory'>, readonly unknown[]>[number];

/** A memory for `--json`. */
export function toMemoryOutput(memory: MemoryRecord | MemoryHit): MemoryOutput {
  const { id, kind, subject, slot, userId, agentId, trust, reinforcements, supersededBy } = memory;
  const said = { id, memory: memory.memory, kind, subject, trust, reinforcements };
  const score = 'score' in memory ? memory.score : undefined;
  const observedAt = memory.observedAt.toISOString();
  return withoutUndefined({ ...said, observedAt, slot, userId, agentId, supersededBy, score });
}
