import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { readPath } from '../engine/records.ts';

/** The checkpoints of a round, the newest first, one for each message. What keeps no rounds has one checkpoint in each. */
export type Round = {
  /** As `metadata.round` says; undefined where nobody counts. */
  readonly number: number | undefined;
  readonly rows: readonly Checkpoint[];
  /** What the number of the round stands for: its last message, but a prompt that came after it. */
  readonly end: Checkpoint;
};

/** What the summary of a person's prompt begins with. */
const PROMPT = 'user: ';

/** A checkpoint and its ancestors, newest first, without the deleted ones. */
export async function* readLive(storage: ChunkStorage, from: Checkpoint): AsyncGenerator<Checkpoint> {
  for await (const { checkpoint } of readPath(storage, from)) if (checkpoint !== undefined) yield checkpoint;
}

/** The rounds of a history, the newest first. */
export async function* readRounds(storage: ChunkStorage, from: Checkpoint): AsyncGenerator<Round> {
  let rows: Checkpoint[] = [];
  for await (const checkpoint of readMessages(storage, from)) {
    const [newest] = rows;
    if (newest !== undefined && (roundOf(newest) === undefined || roundOf(newest) !== roundOf(checkpoint))) {
      yield toRound(rows, newest);
      rows = [];
    }
    rows.push(checkpoint);
  }
  const [newest] = rows;
  if (newest !== undefined) yield toRound(rows, newest);
}

function toRound(rows: readonly Checkpoint[], newest: Checkpoint): Round {
  const end = rows.find(({ contextSummary }) => contextSummary?.startsWith(PROMPT) !== true) ?? newest;
  return { number: roundOf(end), rows, end };
}

async function* readMessages(storage: ChunkStorage, from: Checkpoint): AsyncGenerator<Checkpoint> {
  const fold = new MessageFold();
  for await (const checkpoint of readLive(storage, from)) if (fold.shows(checkpoint)) yield checkpoint;
}

/**
 * Picks one checkpoint for each message: chats save a reply when it was generated, when it is in the transcript, and when it ended them. The
 * newest stands for the others; one that a name points to, or that was forked, is always shown.
 */
export class MessageFold {
  readonly #isNamed: (checkpoint: Checkpoint) => boolean;
  /** What is shown of the children of a checkpoint, by its id. */
  readonly #children = new Map<string, readonly Checkpoint[]>();

  constructor(isNamed: (checkpoint: Checkpoint) => boolean = () => false) {
    this.#isNamed = isNamed;
  }

  /** Whether a checkpoint is shown. They are to be told newest first. */
  shows(checkpoint: Checkpoint): boolean {
    const children = this.#children.get(checkpoint.id) ?? [];
    this.#children.delete(checkpoint.id);
    const isShown = this.#isNamed(checkpoint) || children.length > 1 || !isFolded(checkpoint, children[0]);
    const { parentId } = checkpoint;
    if (parentId === undefined) return isShown;
    const shown = isShown ? [checkpoint] : children;
    this.#children.set(parentId, [...(this.#children.get(parentId) ?? []), ...shown]);
    return isShown;
  }
}

function isFolded(checkpoint: Checkpoint, shown: Checkpoint | undefined): boolean {
  if (checkpoint.trigger === 'conversation_continued') return true; // before the prompt that it is about
  if (shown === undefined) return false;
  const count = countSaid(checkpoint);
  return count === undefined ? isRepeated(shown, checkpoint) : count === 0 || count === countSaid(shown);
}

/** How many messages were said by then, also one that only its speaker knows yet. */
function countSaid(checkpoint: Checkpoint): number | undefined {
  const count = countedMessages(checkpoint);
  return count !== undefined && checkpoint.trigger === 'speaker_reply_generated' ? count + 1 : count;
}

/** How many messages the transcript has, as `metadata.messages` says. */
export function countedMessages({ metadata }: Checkpoint): number | undefined {
  return typeof metadata?.messages === 'number' ? metadata.messages : undefined;
}

/** A checkpoint, and how many of the messages of the newest one it has; none where it is not known which one brought them. */
export type CountedCheckpoint = { readonly messages: number; readonly checkpoint: Checkpoint | undefined };

/** The checkpoints of a path that count their messages, the newest first, as far back as messages were only appended. */
export async function* countBack(
  path: AsyncIterable<Checkpoint> | Iterable<Checkpoint>,
): AsyncGenerator<CountedCheckpoint> {
  let messages = Number.POSITIVE_INFINITY;
  let newer: Checkpoint | undefined;
  for await (const checkpoint of path) {
    const count = countedMessages(checkpoint);
    if (count === undefined) continue;
    if (newer !== undefined && isRewritten(newer, count)) {
      yield { messages, checkpoint: undefined };
      return;
    }
    messages = Math.min(messages, count);
    newer = checkpoint;
    yield { messages, checkpoint };
  }
}

/** Whether a list became shorter, other than by an edit, or a save that says nothing else has as many as before: a summary, or a window of the last ones. */
function isRewritten(checkpoint: Checkpoint, before: number): boolean {
  const count = countedMessages(checkpoint) ?? 0;
  const { trigger } = checkpoint;
  return trigger !== 'edited' && (count < before || (count === before && trigger === undefined));
}

/** A fleet that waits, failed or goes on was saved again with what it had said. */
function isRepeated({ trigger = '', contextSummary: shown }: Checkpoint, { contextSummary }: Checkpoint): boolean {
  const isAgain = ['waiting_for_input', 'run_failed', 'fleet_continued'].includes(trigger);
  return isAgain && shown !== undefined && shown === contextSummary;
}

/** The round of a checkpoint, as `metadata.round` says. */
export function roundOf({ metadata }: Checkpoint): number | undefined {
  return typeof metadata?.round === 'number' ? metadata.round : undefined;
}
