import { InvalidInputError } from '../../../../core/errors.ts';
import type { MemoryHit } from '../../../../memory/find/finding.ts';
import { MEMORY_KINDS, type MemoryKind, type MemoryRecord } from '../../../../memory/storage/memory-record.ts';
import type { CommandInput } from '../../../base/command-input.ts';
import type { Context } from '../../../base/context.ts';
import { EXIT, type ExitCode } from '../../../base/exit-code.ts';
import { toMemoryOutput, useMemory } from '../../../memory/use-memory.ts';
import { clip, formatTime } from '../../../terminal/format.ts';
import { formatRows } from '../../../terminal/table.ts';

const DEFAULT_COUNT = 20;

/** Lists what is known, the newest last. */
export async function list(context: Context, input: CommandInput): Promise<undefined> {
  const limit = input.count('n') ?? DEFAULT_COUNT;
  const found = await useMemory(context, input, async (memory, view) =>
    memory.getAll({ ...view.scope(), ...view.from, ...readSelection(input) }),
  );
  await tell(context, limit === 0 ? [] : found.slice(-limit));
  if (found.length > limit) context.say(`${found.length - limit} more; see them with -n ${found.length}`);
}

/** Finds what answers a question, the best first. */
export async function search(context: Context, input: CommandInput): Promise<ExitCode | undefined> {
  const question = input.words.slice(1).join(' ');
  if (question.trim() === '') throw new InvalidInputError('Say what to look for: savestate memory search "..."');
  const topK = input.count('n') ?? DEFAULT_COUNT;
  const { results } = await useMemory(context, input, async (memory, view) =>
    memory.search(question, { ...view.scope(), ...view.from, ...readSelection(input), topK }),
  );
  await tell(context, results);
  if (results.length > 0) return undefined;
  context.say('Nothing that is known answers this.');
  return EXIT.notFound;
}

function readSelection(input: CommandInput): { kinds?: readonly MemoryKind[]; showExpired?: boolean } {
  const kinds = input.texts('kind').map(parseKind);
  return { ...(kinds.length > 0 && { kinds }), ...(input.flag('all') && { showExpired: true }) };
}

function parseKind(text: string): MemoryKind {
  const kind = MEMORY_KINDS.find((known) => known === text);
  if (kind !== undefined) return kind;
  throw new InvalidInputError(`There is no kind "${text}". There are: ${MEMORY_KINDS.join(', ')}.`);
}

async function tell(context: Context, memories: readonly (MemoryRecord | MemoryHit)[]): Promise<void> {
  const { terminal } = context;
  const rows = memories.map((memory) => [
    terminal.style.cyan(memory.id),
    memory.kind,
    memory.subject,
    formatTime(memory.observedAt),
    ...('score' in memory ? [memory.score.toFixed(2)] : []),
    clip(memory.memory, Number.POSITIVE_INFINITY),
  ]);
  await context.answer(memories.map(toMemoryOutput), () => formatRows(terminal, rows));
}
