import { withoutUndefined } from '../../../core/defined.ts';
import { InvalidInputError } from '../../../core/errors.ts';
import { DEFAULT_RETENTION, type RetentionPolicy } from '../../../manager/retention/retention.ts';
import type { PruneResult } from '../../../manager/retention/retention-runner.ts';
import { parseDuration } from '../../../manager/revision/parse-time.ts';
import type { CollectResult } from '../../../storage/contract.ts';
import { countVerdicts } from '../../../view/figures.ts';
import { closing } from '../../base/closing.ts';
import type { Command, CommandInput, Context } from '../../base/command.ts';
import { findFollowing } from '../../memory/open-memory.ts';
import { formatCount, formatSize } from '../../terminal/format.ts';

const DAY_MS = 86_400_000;
const SHOWN_REASONS = 12;

type Types = NonNullable<RetentionPolicy['types']>;

/** Options that are counts, and the rules they set. */
const COUNTS = {
  keepLast: 'keepLast',
  keepHourly: 'keepHourly',
  keepDaily: 'keepDaily',
  keepWeekly: 'keepWeekly',
  keepMonthly: 'keepMonthly',
  max: 'maxCheckpoints',
  maxPerUser: 'maxCheckpointsPerUser',
} as const;

/** Deletes what no rule keeps. */
export const command: Command = {
  options: [
    ['--keep-last <count>', 'keep the last ones of each session'],
    ['--keep-hourly <count>', 'keep the newest of each of the last hours that have one'],
    ['--keep-daily <count>', 'the same for days'],
    ['--keep-weekly <count>', 'the same for weeks'],
    ['--keep-monthly <count>', 'the same for months'],
    ['--keep-within <duration>', 'keep newer ones, such as 12h'],
    ['--older-than <duration>', 'delete older ones, such as 30d; whole days'],
    ['--max <count>', 'keep at most this many in all, the newest'],
    ['--max-per-user <count>', 'keep at most this many per user'],
    ['--dry-run', 'only say what would be deleted, and why'],
    ['--gc', 'free the space afterwards'],
  ],
  details: `Rules apply to all sessions of the storage, or to the one given by --session. With keep rules, everything that none of them keeps is deleted.
Tags, pins and leased branches are always kept, and so are, by type, the last 3 routine checkpoints of an agent, those of
running operations, and recovery ones for 7 days or until they are cleared; retention: { types } in savestate.yaml changes that.
--older-than also deletes sessions and branches without a later save; if only branch heads
are left above --max, the sessions idle longest are deleted.
A kept checkpoint keeps the ancestors that its state needs, as with delta channels of LangGraph.
Without rules those of savestate.yaml apply (retention:). Shows the plan and asks first.`,
  examples: [
    ['savestate prune --keep-last 10 --keep-daily 7 --dry-run', 'see what would be deleted'],
    ['savestate prune --older-than 30d --yes --gc', 'in a nightly job'],
  ],
  run: async (context, input) => {
    const policy = await readPolicy(context, input);
    const opened = await context.open();
    const { manager } = opened;
    const sessionId = context.globals.session === undefined ? undefined : await opened.knownSession();
    const what = { policy, ...(sessionId !== undefined && { sessionId }) };
    const preview = await context.busy('judging', manager.prune({ ...what, dryRun: true }));
    const { dropped: doomed } = countVerdicts(preview);
    if (input.flag('dryRun') || doomed === 0) return tell(context, preview);
    if (!context.globals.yes) context.terminal.note(formatReasons(preview));
    const isAgreed = await context.confirm(`This deletes ${formatCount(doomed, 'checkpoint')} for good.`);
    if (!isAgreed) return tell(context, preview);
    const result = await closing(await findFollowing(context, { manager }), () =>
      context.busy('deleting', manager.prune(what)),
    );
    const signal = { signal: context.signal };
    return tell(context, result, input.flag('gc') ? await context.busy('collecting', manager.gc(signal)) : undefined);
  },
};

async function readPolicy(context: Context, input: CommandInput): Promise<RetentionPolicy> {
  const counts = Object.entries(COUNTS).map(([option, rule]) => [
    rule,
    rule.startsWith('max') ? input.limit(option) : input.count(option),
  ]);
  const [olderThan, within] = [input.text('olderThan'), input.text('keepWithin')];
  const rules: RetentionPolicy = withoutUndefined({
    ...Object.fromEntries(counts),
    keepWithinMs: within === undefined ? undefined : parseDuration(within),
    maxAgeDays: olderThan === undefined ? undefined : parseDays(olderThan),
  });
  const { types, ...configured } = (await context.config())?.config.retention ?? {};
  // Types keep what they ask for, as in the library; those of the file over those of the library.
  const ofTypes = types === undefined ? {} : { types: { ...DEFAULT_RETENTION.types, ...(types as Types) } };
  const general = Object.keys(rules).length > 0 ? rules : withoutUndefined(configured);
  if (Object.keys(general).length > 0 || types !== undefined) return { ...ofTypes, ...general };
  throw new InvalidInputError(
    'Say what to keep, such as --keep-last 10, or write it into savestate.yaml under retention.',
  );
}

function parseDays(text: string): number {
  const days = parseDuration(text) / DAY_MS;
  if (!Number.isInteger(days) || days < 1)
    throw new InvalidInputError(`--older-than takes whole days, such as 30d or 2w; found "${text}".`);
  return days;
}

async function tell(context: Context, result: PruneResult, collected?: CollectResult): Promise<undefined> {
  const { isDryRun, deleted, verdicts } = result;
  const { kept, dropped } = countVerdicts(result);
  const freed =
    collected && ` ${formatCount(collected.chunks, 'chunk')} removed, ${formatSize(collected.bytes)} freed.`;
  const outcome = isDryRun
    ? `${dropped} of ${verdicts.length} would be deleted; nothing was.`
    : `${formatCount(deleted.length, 'checkpoint')} deleted, ${kept} kept.${freed ?? ''}`;
  const output = { isDryRun, kept, dropped, deleted, verdicts, collected };
  await context.answer(output, () => `${formatReasons(result)}${outcome}\n`);
  if (!isDryRun && collected === undefined) {
    const whole = context.with({ globals: { ...context.globals, session: undefined } });
    context.say(`To free the space: ${whole.command('gc')}`);
  }
}

/** How many go and stay, for each reason. */
function formatReasons(result: PruneResult): string {
  const rows = countVerdicts(result)
    .reasons.map(({ isKept, reason, checkpoints }) => [`${isKept ? 'keep' : 'drop'}  ${reason}`, checkpoints] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const more = rows.length - SHOWN_REASONS;
  const lines = rows.slice(0, SHOWN_REASONS).map(([reason, count]) => `  ${String(count).padStart(6)}  ${reason}\n`);
  return lines.join('') + (more > 0 ? `          and ${more} more reasons; --json lists them all\n` : '');
}
