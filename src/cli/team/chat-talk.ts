import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import type { Session } from '../../manager/session.ts';
import type { AskHuman } from '../../runtime/agent/human.ts';
import {
  type ChatRunOptions,
  type ChatRunResult,
  describeConversation,
  holdChat,
} from '../../runtime/chat/chat-run.ts';
import { CheckpointRestorer } from '../../runtime/chat/checkpoint-restorer.ts';
import type { GroupChat } from '../../runtime/chat/group-chat.ts';
import { openSessionFiles } from '../../runtime/run/files/session-files.ts';
import type { Team } from './open-team.ts';
import { switchOnce } from './switch-once.ts';
import type { Departure, Following, Talk, TalkOptions } from './talk.ts';

/** What a conversation goes on with: answers to what was asked, and whether it is not what its head says. */
type Prepared = { readonly answers?: Readonly<Record<string, string>>; readonly isChanged?: boolean };

/** Talks to a group chat. */
export class ChatTalk implements Talk {
  readonly #team: Extract<Team, { kind: 'chat' }>;
  readonly #options: TalkOptions;

  constructor(team: Extract<Team, { kind: 'chat' }>, options: TalkOptions) {
    this.#team = team;
    this.#options = options;
  }

  async prompt(sessionId: string, text: string, { rounds: given, ...following }: Following & { rounds?: number }) {
    return this.#hold(sessionId, following, (session, chat) => {
      const rounds = given ?? chat.record.settings.maxRounds; // those of the team, not of the session
      if (session.head === undefined) {
        chat.change({ problem: text });
        chat.reopen({ rounds });
        return {};
      }
      load(chat, session);
      const { pendingInput } = chat.record;
      // Whoever is asked something and says something has answered.
      if (pendingInput !== null) return { answers: { [pendingInput.id]: text } };
      chat.prompt(text, rounds);
      return {};
    });
  }

  async resume(
    sessionId: string,
    { rounds, answers = {}, ...following }: Following & { rounds?: number; answers?: Readonly<Record<string, string>> },
  ) {
    return this.#hold(sessionId, following, (session, chat) => {
      load(chat, session);
      checkAnswers(chat, answers);
      if (rounds !== undefined) chat.reopen({ rounds });
      return { answers, isChanged: rounds !== undefined };
    });
  }

  async depart(checkpointId: string, { ask, signal, onText, onMessage, ...departure }: Following & Departure) {
    const { checkpoints, logs } = this.#options;
    // What only the team's module knows, such as its models and where code may run, is registered when the team is made.
    const restorer = new CheckpointRestorer({ checkpoints, registry: this.#team.create().registry });
    const run = this.#runOptions({ signal, onText, onMessage, ...(ask !== undefined && { ask }) });
    const onCheckpoint = switchOnce(checkpoints);
    const result = await restorer.continue(checkpointId, { ...departure, ...run, logs, onCheckpoint });
    return { ...result, drift: result.report.drift };
  }

  async #hold(
    sessionId: string,
    following: Following,
    prepare: (session: Session, chat: GroupChat) => Prepared,
  ): Promise<ChatRunResult> {
    const { checkpoints, logs } = this.#options;
    const session = await checkpoints.session(sessionId);
    try {
      const chat = this.#team.create();
      const prepared = prepare(session, chat);
      const files = await openSessionFiles({ checkpoints, sessionId }, { logs });
      // a killed run may have left the head without files
      if (session.head !== undefined) await files?.add(session.head, describeConversation(chat));
      return await holdChat(chat, session, { ...this.#runOptions(following), ...prepared, files });
    } finally {
      await session.close();
    }
  }

  #runOptions({ ask, signal, onText, onMessage }: Following): ChatRunOptions {
    const { memory, userId } = this.#options;
    return {
      signal,
      onText,
      onMessage,
      ...(ask !== undefined && { ask: toAskHuman(ask) }),
      ...(memory !== undefined && { memory }),
      ...(userId !== undefined && { userId }),
    };
  }
}

function toAskHuman(ask: NonNullable<Following['ask']>): AskHuman {
  return ({ id, agent, prompt, choices = [] }, { signal }) => ask({ id, agent, text: prompt, choices }, signal);
}

function load(chat: GroupChat, session: Session): void {
  if (session.head === undefined)
    throw new NotFoundError(`Session "${session.id}" has no conversation yet. Begin one: savestate run "..."`, {
      details: { sessionId: session.id },
    });
  const problems = chat.loadState(session.state);
  if (problems.length === 0) return;
  throw new InvalidInputError(
    `The conversation cannot be resumed as it was: ${problems.map(({ problem }) => problem).join(' ')}`,
    { details: { problems } },
  );
}

function checkAnswers({ record }: GroupChat, answers: Readonly<Record<string, string>>): void {
  const asked = record.pendingInput?.id;
  const stray = Object.keys(answers).find((id) => id !== asked);
  if (stray === undefined) return;
  const found = asked === undefined ? 'It asks nothing.' : `It asks: ${asked}.`;
  throw new NotFoundError(`Nothing called "${stray}" is asked. ${found}`, { details: { answer: stray, asked } });
}
