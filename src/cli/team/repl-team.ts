import type { CheckpointId, SessionId } from '../../core/record/id.ts';

/** Where a team goes on, and how it is stopped. */
export type SendOptions = {
  readonly sessionId: SessionId | undefined;
  /** The checkpoint that was resumed; absent: the head of the current branch. */
  readonly from?: CheckpointId;
  /** Aborts when the person presses Ctrl-C. */
  readonly signal: AbortSignal;
};

/** What answers in the REPL: an agent or several of them. What it saves is its own; the REPL only hands prompts on. */
export interface ReplTeam {
  /** Who it is, in a few words. */
  readonly name?: string;
  /** The session of the last answer, if the team chose it. */
  readonly sessionId?: SessionId | undefined;
  /** Answers a prompt, part by part. */
  send(prompt: string, options: SendOptions): AsyncIterable<string>;
  /** Goes on without a prompt: for so many rounds, or as far as it would have gone. */
  goOn?(rounds: number | undefined, options: SendOptions): AsyncIterable<string>;
}
