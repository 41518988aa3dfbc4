import { InvalidInputError } from '../../../core/errors.ts';
import { openRecordings } from '../../../manager/effect/recordings.ts';
import { toWholeEffect } from '../../../view/record-output.ts';
import type { CommandInput, Context, OpenStorage } from '../../base/command.ts';
import { formatDuration, formatRows } from '../../terminal/format.ts';

/** Options of `log` that choose or show checkpoints. */
const OF_CHECKPOINTS = ['oneline', 'long', 'graph', 'all', 'since', 'until', 'where'];

/** `log --steps`: what was recorded on the way to the head of a branch and after it, the newest first. */
export async function listSteps(context: Context, opened: OpenStorage, input: CommandInput): Promise<undefined> {
  const other = OF_CHECKPOINTS.find((option) => input.has(option));
  if (input.word(0) !== undefined || other !== undefined)
    throw new InvalidInputError(
      `log --steps lists what a branch recorded: it takes --branch and -n, but no ${other === undefined ? 'revision' : `--${other}`}.`,
    );
  const sessionId = await opened.knownSession();
  const { manager } = opened;
  const branch = input.text('branch') ?? (await manager.currentBranch(sessionId));
  const headId = await opened.findName(sessionId, 'branch', branch);
  const { recordings } = await openRecordings(
    manager.engine,
    { sessionId, branch, head: headId && (await manager.open(headId)) },
    { replayFrom: 'start' },
  );
  const effects = recordings.toReversed();
  const steps = await Promise.all(
    effects.slice(0, input.limit()).map((effect) => toWholeEffect(manager.engine, effect)),
  );
  const rows = steps.map(({ name, status, attempt, durationMs, result }, at) => [
    `#${effects.length - at}`,
    name,
    attempt > 1 ? `${status} (attempt ${attempt})` : status,
    durationMs === undefined ? '' : formatDuration(durationMs / 1000),
    result === undefined ? '' : JSON.stringify(result),
  ]);
  const head = ['step', 'name', 'status', 'took', 'returned'];
  await context.answer(steps, () => formatRows(context.terminal, rows, { head, right: [0, 3], spare: [3] }));
  if (steps.length === 0) context.say(`Branch "${branch}" of session "${sessionId}" recorded no steps.`);
}
