import type { CheckpointId, SessionId } from '../../core/record/id.ts';

/** Where a team goes on, and how it is stopped. */
export type SendOptions = {
  readonly sessionId?: SessionId;
  /** The checkpoint that was resumed; absent: the head of the current branch. */
  readonly from?: CheckpointId;
  /** Aborts when the person presses Ctrl-C. */
  readonly signal: AbortSignal;
  /** Prints what is said, part by part. */
  readonly print: (text: string) => void;
};

/** What answers in the REPL: an agent or several of them. What it saves is its own; the REPL only hands prompts on. */
export interface ReplTeam {
  /** Who it is, in a few words. */
  readonly name?: string;
  /** The session of the last answer, if the team chose it. */
  readonly sessionId?: SessionId | undefined;
  /** Answers a prompt. */
  send(prompt: string, options: SendOptions): Promise<void>;
  /** Goes on without a prompt: for so many rounds, or as far as it would have gone. */
  goOn?(rounds: number | undefined, options: SendOptions): Promise<void>;
}
