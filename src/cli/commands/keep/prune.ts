import { withoutUndefined } from '../../../core/defined.ts';
import { InvalidInputError } from '../../../core/errors.ts';
import { DEFAULT_RETENTION, type RetentionPolicy, type TypeRetention } from '../../../manager/retention/retention.ts';
import type { PruneResult } from '../../../manager/retention/retention-runner.ts';
import type { CollectResult } from '../../../storage/contract.ts';
import type { Command } from '../../base/command.ts';
import type { CommandInput } from '../../base/command-input.ts';
import type { Context } from '../../base/context.ts';
import type { Output } from '../../base/output-schemas.ts';
import type { Config } from '../../place/config-file.ts';
import { parseDuration } from '../../revision/parse-time.ts';
import { formatCount, formatSize } from '../../terminal/format.ts';

const DAY_MS = 86_400_000;
const SHOWN_REASONS = 12;

/** Deletes what no rule keeps. */
export const command: Command = {
  options: [
    ['--keep-last <count>', 'keep the last ones of each session'],
    ['--keep-hourly <count>', 'keep the newest of each of the last hours that have one'],
    ['--keep-daily <count>', 'the same for days'],
    ['--keep-weekly <count>', 'the same for weeks'],
    ['--keep-monthly <count>', 'the same for months'],
    ['--keep-within <duration>', 'keep what is not older, such as 12h'],
    ['--older-than <duration>', 'delete what is older, such as 30d; whole days'],
    ['--max <count>', 'keep at most so many in all, the newest'],
    ['--max-per-user <count>', 'keep at most so many of each user'],
    ['--dry-run', 'only say what would be deleted, and why'],
    ['--gc', 'give the space back afterwards'],
  ],
  details: `Rules hold for all sessions of the storage, or for the one of --session. With a keep rule, what none of them asks for goes.
Tags, pins and leased branches are always kept, and so is what types ask for: the last 3 routine checkpoints of an agent, those of
operations that still run, recovery ones for 7 days or until they are cleared; retention: { types } in savestate.yaml says otherwise.
--older-than also ends sessions and branches that were not saved to since; where only heads of branches
are left above --max, the sessions idle longest go whole.
What is kept keeps the ancestors that its state needs, as with delta channels of LangGraph.
Without rules those of savestate.yaml hold (retention:). It shows what it would do and asks.`,
  examples: [
    ['savestate prune --keep-last 10 --keep-daily 7 --dry-run', 'see what would go'],
    ['savestate prune --older-than 30d --yes --gc', 'in a nightly job'],
  ],
  run: async (context, input) => {
    const policy = await readPolicy(context, input);
    const { manager } = await context.workspace();
    const { session: sessionId } = context.globals;
    const what = { policy, ...(sessionId !== undefined && { sessionId }) };
    const preview = await context.busy('judging', manager.prune({ ...what, dryRun: true }));
    const doomed = preview.verdicts.filter(({ keep }) => !keep).length;
    if (input.flag('dryRun') || doomed === 0) return tell(context, preview);
    if (!context.globals.yes) context.terminal.note(formatReasons(preview));
    const isAgreed = await context.confirm(`This deletes ${formatCount(doomed, 'checkpoint')} for good.`);
    if (!isAgreed) return tell(context, preview);
    const result = await context.busy('deleting', manager.prune(what));
    return tell(
      context,
      result,
      input.flag('gc') ? await context.busy('collecting', manager.gc({ signal: context.signal })) : undefined,
    );
  },
};

async function readPolicy(context: Context, input: CommandInput): Promise<RetentionPolicy> {
  const [olderThan, within] = [input.text('olderThan'), input.text('keepWithin')];
  const rules = withoutUndefined({
    keepLast: input.count('keepLast'),
    keepHourly: input.count('keepHourly'),
    keepDaily: input.count('keepDaily'),
    keepWeekly: input.count('keepWeekly'),
    keepMonthly: input.count('keepMonthly'),
    keepWithinMs: within === undefined ? undefined : parseDuration(within),
    maxAgeDays: olderThan === undefined ? undefined : parseDays(olderThan),
    maxCheckpoints: input.count('max'),
    maxCheckpointsPerUser: input.count('maxPerUser'),
  });
  const { types, ...configured } = (await context.config())?.config.retention ?? {};
  // Types keep what they ask for, as in the library; those of the file over those of the library.
  const ofTypes = types === undefined ? {} : { types: { ...DEFAULT_RETENTION.types, ...toTypes(types) } };
  if (Object.keys(rules).length > 0) return { ...ofTypes, ...rules };
  if (types !== undefined || Object.keys(configured).length > 0) return { ...ofTypes, ...withoutUndefined(configured) };
  throw new InvalidInputError(
    'Say what to keep, such as --keep-last 10, or write it into savestate.yaml under retention.',
  );
}

function toTypes(types: NonNullable<NonNullable<Config['retention']>['types']>): RetentionPolicy['types'] {
  return Object.fromEntries(
    Object.entries(types).map(([type, rule]) => [type, withoutUndefined(rule) as TypeRetention]),
  );
}

function parseDays(text: string): number {
  const days = parseDuration(text) / DAY_MS;
  if (!Number.isInteger(days))
    throw new InvalidInputError(`--older-than takes whole days, such as 30d or 2w; found "${text}".`);
  return days;
}

async function tell(context: Context, result: PruneResult, collected?: CollectResult): Promise<undefined> {
  const { isDryRun, deleted } = result;
  const verdicts = result.verdicts.map((verdict) => ({ ...verdict }));
  const dropped = verdicts.filter(({ keep }) => !keep).length;
  const output: Output<'prune'> = {
    isDryRun,
    kept: verdicts.length - dropped,
    dropped,
    deleted: [...deleted],
    verdicts,
    ...(collected !== undefined && { collected: { ...collected } }),
  };
  await context.answer(output, () => `${formatReasons(result)}${formatOutcome(output)}`);
  if (!isDryRun && collected === undefined) context.say('The space is given back by: savestate gc');
}

function formatOutcome({ isDryRun, kept, dropped, deleted, collected }: Output<'prune'>): string {
  if (isDryRun) return `${dropped} of ${kept + dropped} would be deleted; nothing was.\n`;
  const space =
    collected === undefined
      ? ''
      : ` ${formatCount(collected.chunks, 'chunk')} removed, ${formatSize(collected.bytes)} given back.`;
  return `${formatCount(deleted.length, 'checkpoint')} deleted, ${kept} kept.${space}\n`;
}

/** How many go and stay, for each reason. */
function formatReasons({ verdicts }: PruneResult): string {
  const counts = new Map<string, number>();
  for (const { keep, reason } of verdicts) {
    const key = `${keep ? 'keep' : 'drop'}  ${reason}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const rows = [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
  const more = rows.length - SHOWN_REASONS;
  const lines = rows.slice(0, SHOWN_REASONS).map(([reason, count]) => `  ${String(count).padStart(6)}  ${reason}\n`);
  return lines.join('') + (more > 0 ? `          and ${more} more reasons; --json lists them all\n` : '');
}
