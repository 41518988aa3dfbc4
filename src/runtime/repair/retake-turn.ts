import { InvalidInputError } from '../../core/errors.ts';
import type { Effects } from '../agent/effects.ts';
import type { HumanRequest, ReplyOutcome } from '../agent/reply.ts';
import type { GroupChat } from '../chat/group-chat.ts';
import { selectSpeaker } from '../chat/speaker-selection.ts';
import { ReplacedToolEffects } from './replaced-tool-effects.ts';
import type { ToolTarget } from './target.ts';

/** The world in which a turn is taken again. */
export type RetakeContext = {
  readonly effects: Effects;
  /** Whether recordings may be used beyond the change, as long as they fit. */
  readonly usesRecordings: boolean;
  readonly signal?: AbortSignal | undefined;
  readonly onText?: ((speaker: string, delta: string) => void) | undefined;
};

/** Takes a turn again: as recorded up to the call of a tool, then with the other answer. Its reply is pending afterwards. */
export async function retakeTurn(chat: GroupChat, target: ToolTarget, context: RetakeContext): Promise<void> {
  const { speaker, callId, original, replacement, kept } = target;
  const isSame = original.text === replacement.text && original.isError === replacement.isError;
  const effects = new ReplacedToolEffects(context.effects, {
    callId,
    outcome: replacement,
    kept,
    isDivergence: !(isSame && context.usesRecordings),
  });
  await selectAgain(chat, target, { ...context, effects });
  const { message } = await replyAgain(chat, target, { ...context, effects });
  if (message === undefined || !effects.isReached) {
    throw new InvalidInputError(
      `Call ${callId} of ${speaker} was never made: its result is that of a call that was refused. Change the message instead.`,
      { details: { callId, speaker } },
    );
  }
  chat.change({ pendingReply: { speaker, message } });
}

/** The selection is part of what was recorded, and of what the conversation remembers. */
async function selectAgain(chat: GroupChat, target: ToolTarget, { effects, signal }: RetakeContext): Promise<void> {
  if (chat.record.nextSpeaker !== null) return;
  const { managerName } = chat.record.settings;
  const { speaker, ...remembered } = await selectSpeaker({
    chat: chat.record,
    agents: chat.agents.map((agent) => ({ name: agent.name, description: agent.introduction })),
    registry: chat.registry,
    effects,
    signal,
    ask: (prompt, choices) => askAgain(chat, { agent: managerName, kind: 'speaker', prompt, choices }, effects),
  });
  if (speaker !== target.speaker) {
    throw new InvalidInputError(
      `The turn of ${target.speaker} cannot be taken again: ${speaker ?? 'nobody'} would speak there now. Change the message instead.`,
      { details: { expected: target.speaker, found: speaker ?? null } },
    );
  }
  chat.change({ ...remembered, nextSpeaker: speaker });
}

async function replyAgain(
  chat: GroupChat,
  { speaker }: ToolTarget,
  { effects, signal, onText }: RetakeContext,
): Promise<ReplyOutcome> {
  const agent = chat.agent(speaker);
  if (agent === undefined) throw new InvalidInputError(`"${speaker}" is no agent of the conversation.`);
  return agent.respond({
    effects,
    registry: chat.registry,
    partner: chat.record.settings.managerName,
    ask: (prompt) => askAgain(chat, { agent: speaker, kind: 'reply', prompt }, effects),
    signal,
    onText: onText && ((delta) => onText(speaker, delta)),
  });
}

/** What a person answered then; the same request as then, so that its recording fits. */
function askAgain(chat: GroupChat, question: Omit<HumanRequest, 'id'>, effects: Effects): Promise<string> {
  const input = { ...question, id: `${chat.record.messages.length}:${question.agent}:${question.kind}` };
  return effects.run({ kind: 'human', name: question.agent, input }, async () => '');
}
