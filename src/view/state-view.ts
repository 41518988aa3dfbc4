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

const PLAIN = { transcript: undefined, isFolded: () => false, isCopy: () => false };

const VIEWS = {
  thread: { ...PLAIN, transcript: '$.channel_values.messages', isFolded: below(FOLDED.thread) },
  group_chat: { transcript: '$.chat.messages', isFolded: isFoldedInChat, isCopy: below(COPY) },
  fleet: { transcript: '$.fleet.messages', isFolded: below(FOLDED.fleet), isCopy: below(COPY) },
  workflow_run: { ...PLAIN, isFolded: below(FOLDED.workflow) },
  loop: { ...PLAIN, isFolded: below(FOLDED.loop) },
} satisfies Readonly<Record<string, StateView>>;

/** What kind of thing a state is of, as far as programs of ours and LangGraph are known by it. */
export function kindOf(state: unknown): keyof typeof VIEWS | undefined {
  const { kind, loop, mailbox, context } = fieldsOf(state);
  if (channelsOf(state) !== undefined) return 'thread';
  if (kind === 'group_chat' || kind === 'fleet' || kind === 'workflow_run') return kind;
  return isRecord(loop) && isRecord(mailbox) && isRecord(context) && 'turn' in loop ? 'loop' : undefined;
}

/** The view that fits a state. */
export function viewOf(state: unknown): StateView {
  const kind = kindOf(state);
  if (kind !== undefined) return VIEWS[kind];
  if (isTranscript(state)) return { ...PLAIN, talk: ['$.items', '$.bodies'] };
  return Array.isArray(fieldsOf(state).messages) ? { ...PLAIN, transcript: '$.messages' } : PLAIN;
}

/** A reply that was appended is in the conversation. */
function isFoldedInChat(path: string, value?: unknown): boolean {
  return FOLDED.chat.test(path) || (path === '$.chat.pendingReply' && value === null);
}

function below(pattern: RegExp): (path: string) => boolean {
  return (path) => pattern.test(path);
}
