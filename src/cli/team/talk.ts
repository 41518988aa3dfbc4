import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { EffectMode } from '../../manager/effect/effect-log.ts';
import type { Recovery } from '../../manager/recovery/recovery-options.ts';
import type { Session } from '../../manager/session/session.ts';
import type { RunMemory } from '../../runtime/agent/run-memory.ts';
import type { ChatRunResult } from '../../runtime/chat/chat-run.ts';
import type { FleetRunResult } from '../../runtime/fleet/fleet-run.ts';
import type { OnDifference } from '../../runtime/run/differences.ts';

/** What came of a run, of a group chat or of a fleet. */
export type TeamResult = ChatRunResult | FleetRunResult;

/** A question to the person, as both kinds of teams ask it. */
export type TeamQuestion = {
  readonly id: string;
  readonly agent: string;
  readonly text: string;
  readonly choices: readonly string[];
};

/** Who follows a run, and who stops it. */
export type Following = {
  readonly signal: AbortSignal;
  readonly onText: (speaker: string, delta: string) => void;
  readonly onMessage: (message: { readonly name: string; readonly content: string }) => void;
  /** Told what a fleet assesses and calls, in a line, as its `callbacks` allow. */
  readonly onWork?: (line: string) => void;
  /** Asks the person now; without it, or without an answer, the run stops and waits. */
  readonly ask?: (question: TeamQuestion, signal: AbortSignal | undefined) => Promise<string | undefined>;
};

/** How a team goes on from a checkpoint, in a new branch. */
export type Departure = {
  readonly rounds: number;
  readonly prompt?: string;
  readonly branch?: string;
  readonly reason?: string;
  readonly mode?: EffectMode;
  readonly stripSignal?: boolean;
  readonly files?: 'keep' | 'restore';
};

/** What conversations are held with. */
export type TalkOptions = {
  readonly checkpoints: CheckpointManager;
  readonly logs: string | false;
  readonly memory?: RunMemory | undefined;
  readonly userId?: string | undefined;
  readonly onDifference?: OnDifference | undefined;
  /** Who answers questions. */
  readonly author: string;
};

/** Talks to a team in the open storage; group chats and fleets alike. */
export interface Talk {
  /** Says something: begins the session, or goes on with it. What a person is asked is answered by it. Without `rounds` the team's settings say how many. */
  prompt(sessionId: string, text: string, options: Following & { readonly rounds?: number }): Promise<TeamResult>;
  /** Goes on where the session was left; with `rounds`, for so many from there. */
  resume(
    sessionId: string,
    options: Following & { readonly rounds?: number; readonly answers?: Readonly<Record<string, string>> },
  ): Promise<TeamResult>;
  /** Goes on from a checkpoint as a new branch, which is the current one as soon as it has a checkpoint of its own. */
  depart(checkpointId: string, options: Following & Departure): Promise<TeamResult>;
  /** Goes on, under the lease of the recovery, with a session whose process is gone; throws what it fails with. */
  recover(session: Session, options: Following & Pick<Recovery, 'lease'>): Promise<TeamResult>;
}
