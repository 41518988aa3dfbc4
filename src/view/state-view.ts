import { isRecord } from '../core/options.ts';
import { isTranscript } from '../manager/revision/item-messages.ts';
import { channelsOf, fieldsOf } from '../manager/revision/transcript.ts';

/** How people look at a kind of state: where the conversation is, and what only the program needs. */
export type StateView = {
  /** The path of the list of messages; undefined if there is none. */
  readonly transcript: string | undefined;
  /** The paths of what the conversation is read from; by default its list. */
  readonly talk?: readonly string[];
  /** Copies of messages, counters and the like: shown only if asked for. */
  readonly isFolded: (path: string, value?: unknown) => boolean;
  /** What is, or will be, in the conversation as well. */
  readonly isCopy: (path: string) => boolean;
};

const AGENT = String.raw`\$\.agents(\.[^.[]+|\["[^"]*"\])`;
const AGENT_COPIES = String.raw`${AGENT}\.(histories|totals|turn|autoReplies)`;

const COPY = new RegExp(String.raw`^(${AGENT_COPIES}|\$\.chat\.pendingReply\b|\$\.fleet\.(turn|lastWords)\b)`);

const FOLDED = {
  thread:
    /^\$\.(v|ts|channel_versions|versions_seen|pending_sends)\b|^\$\.channel_values(\.__|\["(__|branch:|start:|join:))/,
  chat: new RegExp(
    String.raw`^(${AGENT_COPIES}|${AGENT}\.status|\$\.chat\.(round|roundLimit|roundsFrom|reopenings|endOverruledAt|lastSpeaker|nextSpeaker|stage|randomState|selectorTotals)\b|\$\.chat\.messages\[\d+\]\.turn\b)`,
  ),
  fleet: new RegExp(
    String.raw`^(${AGENT_COPIES}|${AGENT}\.status|\$\.fleet\.(rounds|stalls|planCount|turn|lastWords|totals|phase|nextSpeaker)\b|\$\.fleet\.messages\[\d+\]\.turn\b)`,
  ),
  workflow: /^\$\.(kind|fingerprint|inputDigest|migrations|timers|tries)\b/,
  loop: /^\$\.(loop\.(turn|gridStartMs|current|works|drift)|mailbox\.(recentIds|recentDigests|pending\[\d+\]\.digest))\b/,
};

/** The view that fits a state. */
export function viewOf(state: unknown): StateView {
  const fields = fieldsOf(state);
  const isCopy = below(COPY);
  if (channelsOf(state) !== undefined)
    return { transcript: '$.channel_values.messages', isFolded: below(FOLDED.thread), isCopy: never };
  if (fields.kind === 'group_chat') return { transcript: '$.chat.messages', isFolded: isFoldedInChat, isCopy };
  if (fields.kind === 'fleet') return { transcript: '$.fleet.messages', isFolded: below(FOLDED.fleet), isCopy };
  if (fields.kind === 'workflow_run') return { transcript: undefined, isFolded: below(FOLDED.workflow), isCopy: never };
  if (isLoopState(state)) return { transcript: undefined, isFolded: below(FOLDED.loop), isCopy: never };
  if (isTranscript(state))
    return { transcript: undefined, talk: ['$.items', '$.bodies'], isFolded: never, isCopy: never };
  const transcript = Array.isArray(fields.messages) ? '$.messages' : undefined;
  return { transcript, isFolded: never, isCopy: never };
}

function never(): boolean {
  return false;
}

/** Whether a state is that of an agent loop. */
export function isLoopState(state: unknown): boolean {
  const { loop, mailbox, context } = fieldsOf(state);
  return isRecord(loop) && isRecord(mailbox) && isRecord(context) && 'turn' in loop;
}

/** A reply that was appended is in the conversation. */
function isFoldedInChat(path: string, value?: unknown): boolean {
  return FOLDED.chat.test(path) || (path === '$.chat.pendingReply' && value === null);
}

function below(pattern: RegExp): (path: string) => boolean {
  return (path) => pattern.test(path);
}
