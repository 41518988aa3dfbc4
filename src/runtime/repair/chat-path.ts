import { NotFoundError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { LineageEntry } from '../../manager/engine/records.ts';
import { type ChatState, parseChatState } from '../chat/chat-state.ts';

/** What the checkpoints that begin an intervened branch were saved for. */
export const INTERVENED = 'intervened';

type Point = {
  readonly id: string;
  readonly branch: string;
  /** Undefined if it was deleted. */
  readonly checkpoint: Checkpoint | undefined;
  readonly messages: unknown;
  /** A reply was generated and not appended. */
  readonly isHalfStep: boolean;
  /** It was saved for a message, or for a change of it. */
  readonly isAppended: boolean;
};

/** The checkpoints of a conversation from one of them back to its beginning. */
export class ChatPath {
  readonly head: Checkpoint;
  readonly state: ChatState;
  /** Newest first. */
  readonly #points: readonly Point[];
  readonly #appended = new Map<unknown, Checkpoint>();

  private constructor(head: Checkpoint, state: ChatState, points: readonly Point[]) {
    this.head = head;
    this.state = state;
    this.#points = points;
    for (const { messages, checkpoint, isAppended, isHalfStep } of points.toReversed())
      if (checkpoint !== undefined && isAppended && !isHalfStep) this.#appended.set(messages, checkpoint);
  }

  /** Reads the path; throws if the checkpoint holds no conversation. */
  static async open(manager: CheckpointManager, idOrPrefix: string): Promise<ChatPath> {
    const entries = await manager.pathToRoot(idOrPrefix);
    const head = entries[0]?.checkpoint;
    if (head === undefined) throw new NotFoundError(`Checkpoint "${idOrPrefix}" was deleted.`);
    return new ChatPath(head, parseChatState(await manager.load(head.id)), entries.map(toPoint));
  }

  get ids(): readonly string[] {
    return this.#points.map(({ id }) => id);
  }

  /** How many checkpoints of the path were deleted. */
  get deletedCount(): number {
    return this.#points.filter(({ checkpoint }) => checkpoint === undefined).length;
  }

  /** The newest checkpoint that stood right after the n-th message, before anyone had answered it. */
  findAppended(messages: number): Checkpoint | undefined {
    return this.#appended.get(messages);
  }

  /** The checkpoint with the generated reply that became this message, and the one its turn began at. */
  findTurn(index: number): { readonly before: Checkpoint | undefined; readonly reply: Checkpoint | undefined } {
    const points = this.#points.filter(({ messages }) => messages === index);
    const reply = points.find(({ isHalfStep }) => isHalfStep)?.checkpoint;
    const before = points.find(({ isHalfStep }) => !isHalfStep)?.checkpoint;
    return { before, reply };
  }

  /** The branch on which the path goes on after one of its checkpoints. */
  branchAfter({ id, branch }: Checkpoint): string {
    const at = this.#points.findIndex((point) => point.id === id);
    return this.#points[at - 1]?.branch ?? branch;
  }
}

function toPoint({ id, checkpoint, tombstone }: LineageEntry): Point {
  if (checkpoint === undefined) {
    const deleted = { checkpoint, messages: undefined, isHalfStep: false, isAppended: false };
    return { id, branch: tombstone.branch, ...deleted };
  }
  const { branch, trigger, metadata } = checkpoint;
  return {
    id,
    branch,
    checkpoint,
    messages: metadata?.messages,
    isHalfStep: trigger === 'speaker_reply_generated' || metadata?.isPending === true,
    isAppended: trigger === 'message_appended' || trigger === INTERVENED,
  };
}
