import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import { editMessage } from '../../manager/branch/message-copies.ts';
import type { ChatMessage } from '../agent/chat-message.ts';
import type { StandardAgent } from '../agent/standard-agent.ts';
import type { GroupChat } from '../chat/group-chat.ts';
import { type Retake, retakeTurn } from './retake-turn.ts';
import type { AgentTarget, MessageTarget, Target } from './target.ts';

/** Who changes something, and why. */
type Editor = { readonly reason?: string | undefined; readonly author?: string | undefined };

/** Changes a restored conversation as an intervention asks; everybody's count of replies begins anew. */
export async function applyTarget(chat: GroupChat, target: Target, editor: Editor & Retake): Promise<void> {
  for (const agent of chat.agents) agent.resetAutoReplies();
  switch (target.kind) {
    case 'message':
      return replaceWords(chat, target, editor);
    case 'agent':
      return configureAgent(chat, target);
    case 'tool_result':
      startAgain(chat);
      return retakeTurn(chat, target, editor);
  }
}

/** The same words are no change: the message keeps all that its provider put on it. */
function replaceWords(chat: GroupChat, { index, replacement }: MessageTarget, { reason, author }: Editor): void {
  const edit = withoutUndefined({ reason, author });
  const { pendingReply, messages } = chat.record;
  const isPending = index === messages.length;
  const current = isPending ? pendingReply?.message : messages[index];
  if (current === undefined || current.content === replacement) return;
  if (isPending) replacePending(chat, editMessage(current, replacement, edit));
  else chat.edit(index, replacement, edit);
  if (index === 0) chat.change({ problem: replacement });
  startAgain(chat);
}

/** Only its speaker knows a pending reply. */
function replacePending(chat: GroupChat, message: ChatMessage): void {
  const { managerName } = chat.record.settings;
  const speaker = openAgent(chat, message.name);
  chat.change({ pendingReply: { speaker: message.name, message } });
  speaker.rewriteHistory(managerName, speaker.history(managerName).with(-1, message));
}

/** What followed from the old words (an end, the next speaker, a question) does not follow from the new ones. */
function startAgain(chat: GroupChat): void {
  const { pendingReply, nextSpeaker } = chat.record;
  chat.change({
    end: null,
    endOverruledAt: null,
    pendingInput: null,
    nextSpeaker: pendingReply === null ? null : nextSpeaker,
  });
  for (const agent of chat.agents) agent.setStatus('running');
}

function configureAgent(chat: GroupChat, { agent, override }: AgentTarget): void {
  if (agent !== undefined && override !== undefined) openAgent(chat, agent).configure(override);
}

function openAgent(chat: GroupChat, name: string): StandardAgent {
  const agent = chat.agent(name);
  if (agent !== undefined) return agent;
  const names = chat.agents.map((known) => known.name).join(', ');
  throw new InvalidInputError(`"${name}" is no agent of the conversation. There are: ${names}.`, {
    details: { agent: name },
  });
}
