import { NotFoundError } from '../../core/errors.ts';
import type { Session } from '../../manager/session/session.ts';
import type { HumanRequest } from '../../runtime/agent/human.ts';
import type { CheckpointingGroupChatManager } from '../../runtime/chat/checkpointing-group-chat-manager.ts';
import type { FleetRequest } from '../../runtime/fleet/fleet-request.ts';
import type { FleetRunner } from '../../runtime/fleet/fleet-runner.ts';
import type { ToolCallEvent } from '../../runtime/fleet/gated-effects.ts';
import type { ProgressLedger } from '../../runtime/fleet/progress-ledger.ts';
import type { Team } from './open-team.ts';
import { toQuestion } from './run-text.ts';
import type { Departure, Following, Talk, TalkOptions, TeamResult } from './talk.ts';

type Runner = CheckpointingGroupChatManager | FleetRunner;

/** Talks to a group chat, or to the orchestrator of a fleet. */
export class TeamTalk implements Talk {
  readonly #team: Team;
  readonly #options: TalkOptions;

  constructor(team: Team, options: TalkOptions) {
    this.#team = team;
    this.#options = options;
  }

  async prompt(sessionId: string, text: string, { rounds, ...following }: Following & { rounds?: number }) {
    const runner = await this.#open(sessionId, following);
    const isNew = (await this.#options.checkpoints.latest({ sessionId })) === undefined;
    const [question] = isNew ? [] : await runner.pending();
    if (question === undefined) return runner.prompt(text, { ...(rounds !== undefined && { rounds }) });
    // Whoever is asked something and says something has answered.
    return this.resume(sessionId, { ...following, answers: { [question.id]: text } });
  }

  async resume(
    sessionId: string,
    { rounds, answers = {}, ...following }: Following & { rounds?: number; answers?: Readonly<Record<string, string>> },
  ): Promise<TeamResult> {
    if ((await this.#options.checkpoints.latest({ sessionId })) === undefined)
      throw new NotFoundError(`Session "${sessionId}" has no conversation yet. Begin one: savestate run "..."`, {
        details: { sessionId },
      });
    const runner = await this.#open(sessionId, following);
    await this.#answer(runner, answers);
    return runner.resume({ ...(rounds !== undefined && { rounds }) });
  }

  async #answer(runner: Runner, answers: Readonly<Record<string, string>>): Promise<void> {
    const asked = await runner.pending();
    for (const [requestId, text] of Object.entries(answers)) {
      const takesAnyText = asked.find(({ id }) => id === requestId)?.options.length === 0;
      await runner.answer({ requestId, by: this.#options.author, ...splitAnswer(text, takesAnyText) });
    }
  }

  async depart(checkpointId: string, { ask, signal, onText, onMessage, onWork, ...departure }: Following & Departure) {
    const { checkpoints, logs, onDifference } = this.#options;
    const following = {
      signal,
      onText,
      onMessage,
      ...(onWork !== undefined && { onWork }),
      ...(ask !== undefined && { ask }),
    };
    let isCurrent = false;
    // From its first checkpoint on a run that is killed can be gone on with.
    const onCheckpoint = async ({ sessionId, branch }: { sessionId: string; branch: string }): Promise<void> => {
      if (!isCurrent) await checkpoints.switchBranch(sessionId, branch);
      isCurrent = true;
    };
    const run = {
      ...departure,
      ...this.#runOptions(),
      ...(onDifference !== undefined && { onDifference }),
      onCheckpoint,
    };
    // What only the team's module knows, such as its models and where code may run, is registered when the team is made.
    if (this.#team.kind === 'chat') {
      const { CheckpointRestorer } = await import('../../runtime/chat/checkpoint-restorer.ts');
      const restorer = new CheckpointRestorer({ checkpoints, registry: this.#team.create().registry });
      return restorer.continue(checkpointId, { ...run, ...followChat(following), logs });
    }
    const { FleetRestorer } = await import('../../runtime/fleet/fleet-restorer.ts');
    const restorer = new FleetRestorer({ checkpoints, registry: this.#team.create().registry });
    const { stripSignal: _, files: __, ...options } = run;
    return restorer.continue(checkpointId, { ...options, ...this.#followFleet(following) });
  }

  async recover(session: Session, { lease, ...following }: Parameters<Talk['recover']>[1]): Promise<TeamResult> {
    return (await this.#open(session.id, following)).recover(session, { lease });
  }

  async #open(sessionId: string, following: Following): Promise<Runner> {
    const { checkpoints, logs, onDifference } = this.#options;
    const place = { checkpoints, sessionId, ...(onDifference !== undefined && { onDifference }) };
    if (this.#team.kind === 'chat') {
      const { CheckpointingGroupChatManager: Manager } = await import(
        '../../runtime/chat/checkpointing-group-chat-manager.ts'
      );
      const chat = this.#team.create();
      return new Manager({ chat, ...place, logs, ...this.#runOptions(), ...followChat(following) });
    }
    const { FleetRunner: Manager } = await import('../../runtime/fleet/fleet-runner.ts');
    const fleet = this.#team.create();
    return new Manager({ fleet, ...place, ...this.#runOptions(), ...this.#followFleet(following) });
  }

  #runOptions() {
    const { memory, userId } = this.#options;
    return { ...(memory !== undefined && { memory }), ...(userId !== undefined && { userId }) };
  }

  #followFleet({ ask, onWork, ...heard }: Following) {
    const following = { ...heard, ...(onWork !== undefined && followWork(onWork)) };
    if (ask === undefined) return following;
    const { author: by } = this.#options;
    return {
      ...following,
      ask: async (request: FleetRequest, { signal }: { signal: AbortSignal }) => {
        const said = await ask(toQuestion(request), signal);
        return said === undefined ? undefined : { by, ...splitAnswer(said, request.options.length === 0) };
      },
    };
  }
}

/** A line for each assessment of the orchestrator, and for each call of a tool. */
function followWork(tell: (line: string) => void) {
  return {
    onProgressLedger: ({
      is_request_satisfied: done,
      is_progress_being_made: moves,
      next_speaker: next,
    }: ProgressLedger) =>
      tell(`ledger: ${done.answer ? 'done' : `next ${next.answer}`}${moves.answer ? '' : ', no progress'}`),
    onToolCall: ({ agent, name, input }: ToolCallEvent) => tell(`${agent} calls ${name} ${JSON.stringify(input)}`),
  };
}

function followChat({ ask, signal: stop, onText, onMessage }: Following) {
  const following = { signal: stop, onText, onMessage };
  if (ask === undefined) return following;
  return {
    ...following,
    ask: (request: HumanRequest, { signal }: { signal?: AbortSignal | undefined }) => ask(toQuestion(request), signal),
  };
}

/** `revise: shorter, please` is an answer and what belongs to it, where there are options. */
function splitAnswer(text: string, takesAnyText: boolean): { readonly answer: string; readonly value?: string } {
  const found = takesAnyText ? null : /^([a-z_]+):\s*([\s\S]+)$/.exec(text);
  return found === null ? { answer: text } : { answer: found[1] ?? '', value: found[2] ?? '' };
}
