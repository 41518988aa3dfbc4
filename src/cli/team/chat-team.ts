import { NotFoundError } from '../../core/errors.ts';
import { type CheckpointId, parseSessionId, type SessionId } from '../../core/record/id.ts';
import type { ReplTeam, SendOptions } from './repl-team.ts';
import { describeStop, formatAnswer, REPL_NEXT_WORDS } from './run-text.ts';
import { Speech } from './speech.ts';
import type { Following, Talk, TeamResult } from './talk.ts';

/** How a conversation is held in the REPL. */
export type ChatTeamOptions = {
  /** Who it is, in a few words. */
  readonly name: string;
  /** Opens the talk; called when something is said first. */
  readonly open: () => Promise<Talk>;
  /** How many replies a prompt may bring; absent: as many as the team's settings say. */
  readonly rounds: number | undefined;
  /** How many the team's settings say. */
  readonly teamRounds: number;
  /** The name of a session that has to be begun. */
  readonly newSession: () => string;
  /** Told before a checkpoint is gone on from, in a new branch; answers whom to tell how that ended. */
  readonly onDepart: (from: CheckpointId) => Promise<(result: TeamResult) => Promise<void>>;
};

/** Answers prompts with the configured team: each goes on with the session, or from the checkpoint that was resumed. */
export class ChatTeam implements ReplTeam {
  readonly name: string;
  readonly #options: ChatTeamOptions;
  #sessionId: SessionId | undefined;

  constructor(options: ChatTeamOptions) {
    this.name = options.name;
    this.#options = options;
  }

  get sessionId(): SessionId | undefined {
    return this.#sessionId;
  }

  send(prompt: string, options: SendOptions): Promise<void> {
    const { sessionId, from } = options;
    const { rounds, teamRounds, newSession, open } = this.#options;
    return this.#follow(options, async (following) => {
      if (from !== undefined) return this.#depart(from, { prompt, rounds: rounds ?? teamRounds }, following);
      const more = { ...following, ...(rounds !== undefined && { rounds }) };
      return (await open()).prompt(sessionId ?? newSession(), prompt, more);
    });
  }

  goOn(rounds: number | undefined, options: SendOptions): Promise<void> {
    const { sessionId, from } = options;
    const { teamRounds, open } = this.#options;
    return this.#follow(options, async (following) => {
      if (from !== undefined)
        return this.#depart(from, { rounds: rounds ?? this.#options.rounds ?? teamRounds }, following);
      if (sessionId === undefined) throw new NotFoundError('There is nothing to go on with. Say something first.');
      return (await open()).resume(sessionId, { ...(rounds !== undefined && { rounds }), ...following });
    });
  }

  async #depart(from: CheckpointId, order: { rounds: number; prompt?: string }, following: Following) {
    const talk = await this.#options.open();
    const onEnd = await this.#options.onDepart(from);
    const result = await talk.depart(from, { ...order, ...following });
    await onEnd(result);
    return result;
  }

  async #follow({ signal, print }: SendOptions, run: (following: Following) => Promise<TeamResult>): Promise<void> {
    const { onText, onMessage } = new Speech(print);
    const result = await run({ signal, onText, onMessage });
    this.#sessionId = parseSessionId(result.sessionId);
    const answer = formatAnswer(result);
    print(`\n${answer === '' ? '' : `${answer.trimStart()}\n`}${describeStop(result, REPL_NEXT_WORDS)}\n`);
  }
}
