import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import type { StepAttempt } from '../../manager/effect/step.ts';
import type { EffectCall, Effects } from '../agent/effects.ts';
import type { ToolOutcome } from '../agent/tool.ts';
import type { ChatTypes } from '../chat/chat-kind.ts';
import { ChatLoop } from '../chat/chat-loop.ts';
import { saidIn } from '../chat/chat-state.ts';
import type { GroupChat } from '../chat/group-chat.ts';
import type { World } from '../run/team-run.ts';
import type { MessageTarget, Target, ToolTarget } from './intervention.ts';

type Editor = { readonly reason?: string | undefined; readonly author?: string | undefined };

/** Changes a restored conversation as an intervention asks; everybody's count of replies begins anew. */
export async function applyTarget(chat: GroupChat, target: Target, editor: Editor & Retake): Promise<void> {
  for (const agent of chat.agents) agent.resetAutoReplies();
  switch (target.kind) {
    case 'message':
      return replaceWords(chat, target, editor);
    case 'agent': {
      const { agent, override } = target;
      if (agent !== undefined && override !== undefined) chat.openAgent(agent).configure(override);
      return;
    }
    case 'tool_result':
      startAgain(chat);
      return retakeTurn(chat, target, editor);
  }
}

/** The same words are no change: the message keeps all that its provider put on it. */
function replaceWords(chat: GroupChat, { index, replacement }: MessageTarget, { reason, author }: Editor): void {
  const current = saidIn(chat.record)[index];
  if (current === undefined || current.content === replacement) return;
  chat.edit(index, replacement, withoutUndefined({ reason, author }));
  if (index === 0) chat.change({ problem: replacement });
  startAgain(chat);
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

type Retake = {
  readonly world: World<ChatTypes>;
  /** `recorded`: recordings may be used beyond the change, as long as they fit. */
  readonly mode?: 'live' | 'recorded';
  readonly rounds: number;
};

/** Takes a turn again: as recorded up to the call of a tool, then with the other answer. Its reply is pending afterwards. */
async function retakeTurn(chat: GroupChat, target: ToolTarget, { world, mode, rounds }: Retake): Promise<void> {
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

/** Which call gets another answer, and which ones after it keep theirs. */
type Replacement = {
  readonly callId: string;
  readonly outcome: ToolOutcome;
  readonly kept: ReadonlyMap<string, ToolOutcome>;
  /** Whether the recording ends here, also if the answer is the same. */
  readonly isDivergence: boolean;
};

/**
 * Makes a turn go as it went up to the call of a tool, gives that call another answer, and lets the turn go on from there. Nothing is
 * called before it: what the recording does not have cannot be taken again in the same way.
 */
class ReplacedToolEffects implements Effects {
  readonly #inner: Effects;
  readonly #replacement: Replacement;
  isReached = false;

  constructor(inner: Effects, replacement: Replacement) {
    this.#inner = inner;
    this.#replacement = replacement;
  }

  async run<Result>(call: EffectCall, perform: (attempt: StepAttempt) => Promise<Result>): Promise<Result> {
    const { callId, outcome, kept, isDivergence } = this.#replacement;
    const called = call.kind === 'tool' ? (call.input as { readonly callId: string }).callId : undefined;
    if (called === callId && !this.isReached) {
      this.isReached = true;
      // Another input, so that the recorded answer does not fit.
      const input = isDivergence ? { call: call.input, replacement: outcome } : call.input;
      return this.#answer({ ...call, input }, outcome);
    }
    const answer = called !== undefined && this.isReached ? kept.get(called) : undefined;
    if (answer !== undefined) return this.#answer(call, answer);
    return this.#inner.run(call, async (attempt) => {
      if (!this.isReached) throw notRecorded(call, callId);
      return perform(attempt);
    });
  }

  #answer<Result>(call: EffectCall, outcome: ToolOutcome): Promise<Result> {
    return this.#inner.run<Result>(call, async () => outcome as Result); // whoever runs a tool expects its outcome
  }
}

function notRecorded({ kind, name }: EffectCall, callId: string): InvalidInputError {
  return new InvalidInputError(
    `The turn cannot be taken again up to call ${callId}: what ${kind} "${name}" answered before it is not recorded for this input. Change a message instead.`,
    { details: { kind, name, callId } },
  );
}
