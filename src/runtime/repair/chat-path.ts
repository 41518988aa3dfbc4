import { NotFoundError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { LineageEntry } from '../../manager/engine/records.ts';
import { type ChatState, parseChatState } from '../chat/chat-state.ts';

/** What the checkpoints that begin an intervened branch were saved for. */
export const INTERVENED = 'intervened';

/** The checkpoints of a conversation from one of them back to its beginning. */
export class ChatPath {
  readonly head: Checkpoint;
  readonly state: ChatState;
  /** Newest first. */
  readonly #entries: readonly LineageEntry[];
  /** By how many messages there were right after a message, before anyone had answered it; the newest of each. */
  readonly #appended: ReadonlyMap<unknown, Checkpoint>;

  private constructor(head: Checkpoint, state: ChatState, entries: readonly LineageEntry[]) {
    this.head = head;
    this.state = state;
    this.#entries = entries;
    const appended = entries.flatMap(({ checkpoint }) => (checkpoint && isAppended(checkpoint) ? [checkpoint] : []));
    this.#appended = new Map(appended.toReversed().map((checkpoint) => [checkpoint.metadata?.messages, checkpoint]));
  }

  /** Reads the path; throws if the checkpoint holds no conversation. */
  static async open(manager: CheckpointManager, idOrPrefix: string): Promise<ChatPath> {
    const entries = await manager.pathToRoot(idOrPrefix);
    const head = entries[0]?.checkpoint;
    if (head === undefined) throw new NotFoundError(`Checkpoint "${idOrPrefix}" was deleted.`);
    return new ChatPath(head, parseChatState(await manager.load(head.id)), entries);
  }

  get ids(): readonly string[] {
    return this.#entries.map(({ id }) => id);
  }

  /** How many checkpoints of the path were deleted. */
  get deletedCount(): number {
    return this.#entries.filter(({ checkpoint }) => checkpoint === undefined).length;
  }

  /** The newest checkpoint that stood right after the n-th message, before anyone had answered it. */
  findAppended(messages: number): Checkpoint | undefined {
    return this.#appended.get(messages);
  }

  /** The checkpoint with the generated reply that became this message, and the one its turn began at. */
  findTurn(index: number): { readonly before: Checkpoint | undefined; readonly reply: Checkpoint | undefined } {
    const points = this.#entries.flatMap(({ checkpoint }) => checkpoint ?? []);
    const there = points.filter(({ metadata }) => metadata?.messages === index);
    return { before: there.find((point) => !isHalfStep(point)), reply: there.find(isHalfStep) };
  }

  /** The branch on which the path goes on after one of its checkpoints. */
  branchAfter({ id, branch }: Checkpoint): string {
    const { checkpoint, tombstone } = this.#entries[this.ids.indexOf(id) - 1] ?? {};
    return (checkpoint ?? tombstone)?.branch ?? branch;
  }
}

/** Whether a reply was generated and not appended. */
function isHalfStep({ trigger, metadata }: Checkpoint): boolean {
  return trigger === 'speaker_reply_generated' || metadata?.isPending === true;
}

/** Whether it was saved for a message, or for a change of it. */
function isAppended(checkpoint: Checkpoint): boolean {
  const { trigger } = checkpoint;
  return (trigger === 'message_appended' || trigger === INTERVENED) && !isHalfStep(checkpoint);
}
