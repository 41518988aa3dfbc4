import { FleetAnswers } from '../../runtime/fleet/fleet-answers.ts';
import { FleetRestorer } from '../../runtime/fleet/fleet-restorer.ts';
import { type FleetRunOptions, type FleetRunResult, holdFleet } from '../../runtime/fleet/fleet-run.ts';
import { FleetRunner } from '../../runtime/fleet/fleet-runner.ts';
import type { AskFleet } from '../../runtime/fleet/questions.ts';
import type { Team } from './open-team.ts';
import { switchOnce } from './switch-once.ts';
import type { Departure, Following, Talk, TalkOptions } from './talk.ts';

/** Talks to a fleet: to its orchestrator, that is. */
export class FleetTalk implements Talk {
  readonly #team: Extract<Team, { kind: 'fleet' }>;
  readonly #options: TalkOptions;

  constructor(team: Extract<Team, { kind: 'fleet' }>, options: TalkOptions) {
    this.#team = team;
    this.#options = options;
  }

  /** How long a fleet works is for its settings to say, so `rounds` does not count here. */
  async prompt(sessionId: string, text: string, { ask, signal, onText, onMessage }: Following) {
    const following: Following = { signal, onText, onMessage, ...(ask !== undefined && { ask }) };
    const isNew = (await this.#options.checkpoints.latest({ sessionId })) === undefined;
    const runner = this.#runner(sessionId, following);
    if (isNew) return runner.run({ task: text });
    const [question] = await runner.pending();
    if (question === undefined) return runner.resume({ prompt: text });
    return this.resume(sessionId, { ...following, answers: { [question.id]: text } });
  }

  async resume(
    sessionId: string,
    { rounds, answers = {}, ...following }: Following & { rounds?: number; answers?: Readonly<Record<string, string>> },
  ): Promise<FleetRunResult> {
    const { checkpoints, author } = this.#options;
    const inbox = new FleetAnswers(checkpoints);
    const asked = await inbox.pending({ sessionId });
    for (const [requestId, text] of Object.entries(answers)) {
      const takesAnyText = asked.find(({ id }) => id === requestId)?.options.length === 0;
      const [answer, value] = takesAnyText ? ([text] as const) : splitAnswer(text);
      await inbox.give({ sessionId, requestId, answer, by: author, ...(value !== undefined && { value }) });
    }
    if (rounds === undefined) return this.#runner(sessionId, following).resume();
    return this.#grant(sessionId, rounds, following);
  }

  async #grant(sessionId: string, rounds: number, following: Following): Promise<FleetRunResult> {
    const { checkpoints } = this.#options;
    const session = await checkpoints.session(sessionId);
    try {
      const fleet = this.#team.create();
      fleet.loadState(session.state);
      fleet.grantRounds(rounds);
      return await holdFleet(fleet, { checkpoints, session }, this.#runOptions(following));
    } finally {
      await session.close();
    }
  }

  async depart(checkpointId: string, { ask, signal, onText, onMessage, ...departure }: Following & Departure) {
    const { checkpoints } = this.#options;
    // Settings of a fleet that only its module knows, such as its model, are registered when it is made.
    const restorer = new FleetRestorer({ checkpoints, registry: this.#team.create().registry });
    const run = this.#runOptions({ signal, onText, onMessage, ...(ask !== undefined && { ask }) });
    const onCheckpoint = switchOnce(checkpoints);
    const { stripSignal: _, files: __, ...options } = departure;
    const result = await restorer.continue(checkpointId, { ...options, ...run, onCheckpoint });
    return { ...result, drift: result.report.drift };
  }

  #runner(sessionId: string, following: Following): FleetRunner {
    const { checkpoints } = this.#options;
    return new FleetRunner({ fleet: this.#team.create(), checkpoints, sessionId, ...this.#runOptions(following) });
  }

  #runOptions({ ask, signal, onText, onMessage }: Following): FleetRunOptions {
    const { memory, userId, author } = this.#options;
    return {
      signal,
      onText,
      onMessage,
      ...(ask !== undefined && { ask: toAskFleet(ask, author) }),
      ...(memory !== undefined && { memory }),
      ...(userId !== undefined && { userId }),
    };
  }
}

function toAskFleet(ask: NonNullable<Following['ask']>, by: string): AskFleet {
  return async ({ id, agent, message, options }, { signal }) => {
    const said = await ask({ id, agent, text: message, choices: options }, signal);
    if (said === undefined) return undefined;
    const [answer, value] = options.length === 0 ? ([said] as const) : splitAnswer(said);
    return { answer, by, ...(value !== undefined && { value }) };
  };
}

/** `revise: shorter, please` is an answer and what belongs to it. */
function splitAnswer(text: string): readonly [answer: string, value?: string] {
  const found = /^([a-z_]+):\s*([\s\S]+)$/.exec(text);
  return found === null ? [text] : [found[1] ?? '', found[2] ?? ''];
}
