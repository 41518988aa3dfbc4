import { InvalidInputError } from '../../core/errors.ts';
import type { ChatTypes } from '../chat/chat-kind.ts';
import { ChatLoop } from '../chat/chat-loop.ts';
import type { GroupChat } from '../chat/group-chat.ts';
import type { World } from '../run/team-run.ts';
import { ReplacedToolEffects } from './replaced-tool-effects.ts';
import type { ToolTarget } from './target.ts';

/** Where a turn is taken again, and how the conversation goes on. */
export type Retake = {
  readonly world: World<ChatTypes>;
  /** `recorded`: recordings may be used beyond the change, as long as they fit. */
  readonly mode?: 'live' | 'recorded';
  readonly rounds: number;
};

/** Takes a turn again: as recorded up to the call of a tool, then with the other answer. Its reply is pending afterwards. */
export async function retakeTurn(chat: GroupChat, target: ToolTarget, { world, mode, rounds }: Retake): Promise<void> {
  const { speaker, callId, original, replacement: outcome, kept } = target;
  const isSame = original.text === outcome.text && original.isError === outcome.isError;
  const isDivergence = !(isSame && mode === 'recorded');
  const effects = new ReplacedToolEffects(world.effects, { callId, outcome, kept, isDivergence });
  const { signal, recall, onText } = world;
  const turn = new ChatLoop(chat, {
    effects,
    signal,
    recall,
    onText,
    onMessage: undefined,
    save: () => Promise.resolve(),
    // What a person answered then; the same request as then, so that its recording fits.
    ask: (question) => effects.run({ kind: 'human', name: question.agent, input: question }, async () => ''),
  });
  // It was taken then, so nothing that was said before it ended the conversation.
  chat.reopen({ rounds });
  chat.change({ endOverruledAt: chat.messages.length });
  if (chat.record.nextSpeaker === null) await turn.move();
  checkSpeaker(chat, speaker);
  await turn.move();
  if (chat.record.pendingReply !== null && effects.isReached) return;
  throw new InvalidInputError(
    `Call ${callId} of ${speaker} was never made: its result is that of a call that was refused. Change the message instead.`,
    { details: { callId, speaker } },
  );
}

function checkSpeaker({ record: { nextSpeaker: found } }: GroupChat, expected: string): void {
  if (found === expected) return;
  throw new InvalidInputError(
    `The turn of ${expected} cannot be taken again: ${found ?? 'nobody'} would speak there now. Change the message instead.`,
    { details: { expected, found } },
  );
}
