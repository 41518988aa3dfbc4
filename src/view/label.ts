import type { Checkpoint } from '../core/record/checkpoint.ts';
import type { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { fieldsOf, listMessages } from '../manager/revision/transcript.ts';
import { readMessage } from './message-text.ts';
import { readParts } from './messages.ts';

/** What a checkpoint did, in a few words. */
export type CheckpointLabel = {
  readonly id: string;
  readonly speaker?: string;
  readonly text: string;
  readonly tools: string[];
  /** How many places of the state it changed. */
  readonly changes: number;
};

const MAX_CHARS = 160;
const MESSAGE = /^\$(\.(chat|fleet|channel_values))?\.messages\[\d+\]$/;
const PENDING = /^\$\.chat\.pendingReply$/;

/** Finds the message that a checkpoint brought, or what else changed with it. */
export async function labelOf(manager: CheckpointManager, checkpoint: Checkpoint): Promise<CheckpointLabel> {
  const { id, parentId } = checkpoint;
  const parent = parentId === undefined ? undefined : await manager.get(parentId);
  if (parent === undefined) {
    const last = listMessages(await manager.load(id))?.at(-1);
    return { id, ...describe(checkpoint, last, []), changes: 0 };
  }
  const { added, modified, changedFields } = await manager.compare(parent.id, id);
  const news = [...modified, ...added];
  const last =
    news.findLast(({ path }) => MESSAGE.test(path))?.newValue ?? news.find(({ path }) => PENDING.test(path))?.newValue;
  return { id, ...describe(checkpoint, last, changedFields), changes: changedFields.length };
}

function describe(checkpoint: Checkpoint, last: unknown, fields: readonly string[]) {
  const message = readMessage(last) === undefined ? fieldsOf(last).message : last;
  const { name, note, reason, trigger, type } = checkpoint;
  if (readMessage(message) === undefined) {
    const places = fields.slice(0, 3).join(', ');
    return { text: clip(name ?? note ?? reason ?? (places === '' ? (trigger ?? type) : places)), tools: [] };
  }
  const { speaker, text, calls, results } = readParts(message);
  const tools = [...calls, ...results].map((each) => each.name);
  return { speaker, text: clip(text), tools: [...new Set(tools)] };
}

function clip(text: string): string {
  const words = text
    .slice(0, MAX_CHARS * 4)
    .replaceAll(/\s+/g, ' ')
    .trim();
  return words.length > MAX_CHARS ? `${words.slice(0, MAX_CHARS)}…` : words;
}
