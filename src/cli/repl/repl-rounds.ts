import { NotFoundError } from '../../core/errors.ts';
import { formatCount } from '../../core/format-count.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { PERSON } from '../../runtime/agent/chat-message.ts';
import type { OpenStorage } from '../base/open-storage.ts';
import { readLive, resolveRevision } from '../revision/resolve-revision.ts';
import { describeCheckpoint, formatNames, type Names, shortenIds, toOutput } from '../state/checkpoint-text.ts';
import { formatRows, formatTime } from '../terminal/format.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** The checkpoints of a round, the newest first, one for each message. What keeps no rounds has one checkpoint in each. */
export type Round = {
  /** As `metadata.round` says; undefined where nobody counts. */
  readonly number: number | undefined;
  readonly rows: readonly Checkpoint[];
  /** What the number of the round stands for: its last message, but a prompt that came after it. */
  readonly end: Checkpoint;
};

/** The rounds of a history, the newest first. */
export async function* readRounds(opened: OpenStorage, from: Checkpoint): AsyncGenerator<Round> {
  let rows: Checkpoint[] = [];
  for await (const checkpoint of readMessages(opened, from)) {
    const [newest] = rows;
    if (newest !== undefined && (roundOf(newest) === undefined || roundOf(newest) !== roundOf(checkpoint))) {
      yield toRound(rows);
      rows = [];
    }
    rows.push(checkpoint);
  }
  if (rows.length > 0) yield toRound(rows);
}

function toRound(rows: readonly Checkpoint[]): Round {
  const end = rows.find(({ contextSummary }) => contextSummary?.startsWith(`${PERSON}: `) !== true) ?? rows[0];
  if (end === undefined) throw new NotFoundError('There are no checkpoints yet.');
  return { number: roundOf(end), rows, end };
}

/** One checkpoint for each message: chats save a reply when it was generated, when it is in the transcript, and when it ended them. */
async function* readMessages(opened: OpenStorage, from: Checkpoint): AsyncGenerator<Checkpoint> {
  let shown: Checkpoint | undefined;
  for await (const checkpoint of readLive(opened, from)) {
    if (checkpoint.trigger === 'conversation_continued') continue; // before the prompt that it is about
    const count = countMessages(checkpoint);
    const isSame = count === undefined ? isRepeated(shown, checkpoint) : count === 0 || count === countMessages(shown);
    if (shown !== undefined && isSame) continue;
    shown = checkpoint;
    yield checkpoint;
  }
}

function countMessages(checkpoint: Checkpoint | undefined): number | undefined {
  const messages = checkpoint?.metadata?.messages;
  if (typeof messages !== 'number') return undefined;
  return checkpoint?.trigger === 'speaker_reply_generated' ? messages + 1 : messages;
}

/** A fleet that waits, failed or goes on was saved again with what it had said. */
function isRepeated(shown: Checkpoint | undefined, { contextSummary }: Checkpoint): boolean {
  const isAgain = ['waiting_for_input', 'run_failed', 'fleet_continued'].includes(shown?.trigger ?? '');
  return isAgain && shown?.contextSummary !== undefined && shown.contextSummary === contextSummary;
}

function roundOf({ metadata }: Checkpoint): number | undefined {
  return typeof metadata?.round === 'number' ? metadata.round : undefined;
}

/** Where a checkpoint stands, in words: `round 3`, or its number where nobody counts rounds. */
export function describeRound(checkpoint: Checkpoint): string {
  const round = roundOf(checkpoint);
  return round === undefined ? `#${checkpoint.sequence}` : `round ${round}`;
}

/** The end of the round with this number, as `checkpoints` shows it, also of one that was gone back from; where nobody counts, the checkpoint with it. */
export async function openRound(opened: OpenStorage, number: number): Promise<Checkpoint> {
  const here = await resolveRevision(opened, '@');
  const head = await resolveRevision(opened, await opened.manager.currentBranch(await opened.session()));
  for (const from of here.id === head.id ? [here] : [here, head])
    for await (const round of readRounds(opened, from)) if (round.number === number) return round.end;
  if (roundOf(here) === undefined) return resolveRevision(opened, `#${number}`);
  throw new NotFoundError(`There is no round ${number} here. "checkpoints" lists them.`, {
    details: { round: number },
  });
}

/** The end of the round that is so many before this checkpoint. */
export async function goBack(opened: OpenStorage, from: Checkpoint, count: number): Promise<Checkpoint> {
  if (count === 0) return from;
  let passed = 0;
  for await (const { rows, end } of readRounds(opened, from)) {
    const isHere = rows[0]?.id === from.id && end.id === from.id;
    if (!isHere && ++passed === count) return end;
  }
  throw new NotFoundError(`Only ${formatCount(passed, 'round')} came before this one.`, {
    details: { asked: count, found: passed },
  });
}

/** Rounds as a table, the oldest first: their numbers, times, ids, and what was said. */
export function formatRounds(rounds: readonly Round[], names: Names, terminal: Terminal): string {
  const { style, isScreen } = terminal;
  const all = rounds.flatMap((round) => round.rows.map((checkpoint) => ({ round, checkpoint }))).reverse();
  const shorten = shortenIds(all.map(({ checkpoint }) => checkpoint.id));
  const rows = all.map(({ round, checkpoint }) => {
    const output = toOutput(checkpoint, names);
    // A prompt that came after the end of a round has only the number of its checkpoint.
    const isRound = round.number !== undefined && round.end === checkpoint;
    const what = [formatNames(output, style), checkpoint.contextSummary ?? describeCheckpoint(output)];
    return [
      isRound ? String(round.number) : `#${checkpoint.sequence}`,
      formatTime(checkpoint.timestamp),
      style.cyan(isScreen ? shorten(checkpoint.id) : checkpoint.id),
      what
        .filter((part) => part !== '')
        .join(' ')
        .replaceAll(/\s+/g, ' '),
    ];
  });
  const head = [rounds.some(({ number }) => number !== undefined) ? 'round' : '#', 'saved (UTC)', 'checkpoint', 'what'];
  return formatRows(terminal, rows, { head, right: [0] });
}
