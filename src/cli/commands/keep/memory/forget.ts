import { InvalidInputError, NotFoundError } from '../../../../core/errors.ts';
import type { Memory } from '../../../../memory/memory.ts';
import type { MemoryScope } from '../../../../memory/storage/memory-record.ts';
import type { CommandInput } from '../../../base/command-input.ts';
import type { Context } from '../../../base/context.ts';
import type { Output } from '../../../base/output-schemas.ts';
import { type MemoryView, useMemory } from '../../../memory/use-memory.ts';
import { clip, formatCount } from '../../../terminal/format.ts';

type ForgetOutput = Extract<Output<'memory'>, { isDryRun: boolean }>;
type Doomed = { readonly target: string | MemoryScope; readonly what: string; readonly ids: readonly string[] };

const SHOWN_CHARS = 60;

/** Removes the words of memories for good. */
export async function forget(context: Context, input: CommandInput): Promise<undefined> {
  return useMemory(context, input, async (memory, view) => {
    const { target, what, ids } = await choose(memory, view, input.word(1));
    const nothing: ForgetOutput = { isDryRun: true, memories: [...ids], checkpoints: [], sessions: [] };
    if (input.flag('dryRun') || !(await context.confirm(`This forgets ${what} for good.`)))
      return tell(context, nothing, what);
    const reason = input.text('reason');
    const { purged, checkpoints, sessions } = await memory.purge(target, reason === undefined ? {} : { reason });
    const done = { memories: [...purged], checkpoints: [...checkpoints], sessions: [...sessions] };
    return tell(context, { isDryRun: false, ...done }, what);
  });
}

async function choose(memory: Memory, { named }: MemoryView, id: string | undefined): Promise<Doomed> {
  if ((id !== undefined) === Object.keys(named).length > 0)
    throw new InvalidInputError('Say a memory, or whose with --user <id> or --agent <id>: one of the two.');
  if (id === undefined) return chooseScope(memory, named);
  const found = await memory.get(id);
  const history = await memory.history(id);
  if (history.some(({ action }) => action === 'PURGE'))
    throw new NotFoundError(`There is no memory "${id}". See: savestate memory list --user <id>`, { details: { id } });
  const words = found?.memory ?? history.findLast(({ newValue }) => newValue !== undefined)?.newValue ?? '';
  return { target: id, what: `${id} ("${clip(words, SHOWN_CHARS)}") and what was taken from it`, ids: [id] };
}

async function chooseScope(memory: Memory, scope: MemoryScope): Promise<Doomed> {
  const known = await memory.getAll({ ...scope, showExpired: true });
  if (known.length === 0) throw new NotFoundError(`There are no memories of ${describeScope(scope)}.`);
  const what = `all memories of ${describeScope(scope)}, ${formatCount(known.length, 'memory')} seen from here`;
  return { target: scope, what, ids: known.map(({ id }) => id) };
}

function describeScope({ userId, agentId }: MemoryScope): string {
  const parts = [userId && `user "${userId}"`, agentId && `agent "${agentId}"`].filter(Boolean);
  return parts.join(' and ');
}

async function tell(context: Context, output: ForgetOutput, what: string): Promise<undefined> {
  const { isDryRun, memories, checkpoints } = output;
  await context.answer(output, () =>
    isDryRun ? `Would forget ${what}; nothing was forgotten.\n` : `${memories.length} forgotten.\n`,
  );
  if (!isDryRun && checkpoints.length > 0)
    context.say(
      `The states of ${formatCount(checkpoints.length, 'checkpoint')} may still hold the words: ${checkpoints.slice(0, 3).join(', ')}${checkpoints.length > 3 ? ', ...' : ''}. See: savestate redact, savestate forget`,
    );
}
