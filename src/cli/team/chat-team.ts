import { NotFoundError } from '../../core/errors.ts';
import { type CheckpointId, parseSessionId, type SessionId } from '../../core/id.ts';
import type { ReplTeam, SendOptions } from '../repl/repl-team.ts';
import { describeStop, REPL_NEXT_WORDS } from './run-text.ts';
import { SpokenParts } from './spoken-parts.ts';
import type { Following, Talk, TeamResult } from './talk.ts';

/** How a conversation is held in the REPL. */
export type ChatTeamOptions = {
  /** How many replies a prompt may bring; absent: as many as the team's settings say. */
  readonly rounds: number | undefined;
  /** The name of a session that has to be begun. */
  readonly newSession: () => string;
  /** Told before a checkpoint is gone on from, in a new branch; answers whom to tell how that ended. */
  readonly onDepart: (from: CheckpointId) => Promise<(result: TeamResult) => Promise<void>>;
};

/** From a checkpoint that was resumed. */
const DEFAULT_ROUNDS = 5;

/** Answers prompts with the configured team: each goes on with the session, or from the checkpoint that was resumed. */
export class ChatTeam implements ReplTeam {
  readonly #talk: Talk;
  readonly #options: ChatTeamOptions;
  #sessionId: SessionId | undefined;

  constructor(talk: Talk, options: ChatTeamOptions) {
    this.#talk = talk;
    this.#options = options;
  }

  get sessionId(): SessionId | undefined {
    return this.#sessionId;
  }

  send(prompt: string, { sessionId, from, signal }: SendOptions): AsyncGenerator<string> {
    const { rounds, newSession } = this.#options;
    return this.#follow(signal, (following) => {
      if (from !== undefined) return this.#depart(from, { prompt, rounds: rounds ?? DEFAULT_ROUNDS }, following);
      const options = { ...following, ...(rounds !== undefined && { rounds }) };
      return this.#talk.prompt(sessionId ?? newSession(), prompt, options);
    });
  }

  goOn(rounds: number | undefined, { sessionId, from, signal }: SendOptions): AsyncGenerator<string> {
    return this.#follow(signal, async (following) => {
      if (from !== undefined)
        return this.#depart(from, { rounds: rounds ?? this.#options.rounds ?? DEFAULT_ROUNDS }, following);
      if (sessionId === undefined) throw new NotFoundError('There is nothing to go on with. Say something first.');
      return this.#talk.resume(sessionId, { ...(rounds !== undefined && { rounds }), ...following });
    });
  }

  async #depart(from: CheckpointId, order: { rounds: number; prompt?: string }, following: Following) {
    const onEnd = await this.#options.onDepart(from);
    const result = await this.#talk.depart(from, { ...order, ...following });
    await onEnd(result);
    return result;
  }

  async *#follow(signal: AbortSignal, run: (following: Following) => Promise<TeamResult>): AsyncGenerator<string> {
    const parts = new SpokenParts();
    const ended = run({
      signal,
      onText: (speaker, delta) => parts.add(speaker, delta),
      onMessage: ({ name, content }) => parts.finish(name, content),
    }).then(
      (result) => parts.end(this.#tell(result)),
      (error: unknown) => parts.fail(error),
    );
    yield* parts.read();
    await ended;
  }

  #tell(result: TeamResult): string {
    this.#sessionId = parseSessionId(result.sessionId);
    return `${describeStop(result, REPL_NEXT_WORDS)}\n`;
  }
}
