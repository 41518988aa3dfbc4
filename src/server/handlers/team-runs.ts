import { ConflictError, messageOf, NotFoundError, UnsupportedError } from '../../core/errors.ts';
import { keepRecent } from '../../core/keep-recent.ts';
import type { EffectMode } from '../../manager/effect/step.ts';
import type { ReplyOf } from '../client/types.ts';

/** What a team is asked to do. */
export type TeamRequest = {
  readonly sessionId: string;
  /** From this checkpoint, as a new branch; undefined: where the session was left. */
  readonly at?: string | undefined;
  /** So many from there; undefined: those that are left. */
  readonly rounds?: number | undefined;
  /** Of a new branch: whether recorded calls are made again. */
  readonly mode?: EffectMode | undefined;
  /** What a person says first. */
  readonly prompt?: string | undefined;
  readonly branch?: string | undefined;
  readonly reason?: string | undefined;
  /** Aborted when a person pauses the run, or the server ends. */
  readonly signal: AbortSignal;
};

/** How a run stopped; the results of group chats and fleets are such. */
export type TeamStop = {
  readonly status: 'ended' | 'waiting' | 'failed' | 'stopped';
  readonly branch: string;
  readonly error?: unknown;
};

/** A team that may be run from the page: whoever makes the server decides that, never what is stored. */
export type ServedTeam = {
  /** What people know it by; default: team. */
  readonly label?: string;
  /** Lets it work until it stops. */
  run(request: TeamRequest): Promise<TeamStop>;
};

/** A run that was begun here. */
type TeamRun = ReplyOf<'POST /v1/sessions/{session}/run'>;

type Active = { readonly stop: AbortController; readonly done: Promise<void> };

/** Of so many sessions it is known how their last run stopped. */
const MAX_KNOWN = 1_000;

/** The runs of the server's team: one at a time in a session. */
export class TeamRuns {
  readonly #team: ServedTeam | undefined;
  readonly #tell: (sessionId: string) => void;
  readonly #active = new Map<string, Active>();
  readonly #runs = new Map<string, TeamRun>();

  /** `tell` hears of sessions whose run began or stopped. */
  constructor(team: ServedTeam | undefined, tell: (sessionId: string) => void) {
    this.#team = team;
    this.#tell = tell;
  }

  get label(): string | undefined {
    return this.#team && (this.#team.label ?? 'team');
  }

  /** The run of a session that is under way, or the last one. */
  find(sessionId: string): TeamRun | undefined {
    return this.#runs.get(sessionId);
  }

  /** Begins a run, and does not wait for its end. */
  start(request: Omit<TeamRequest, 'signal'>, nowMs: () => number): TeamRun {
    const { sessionId, at, rounds, mode } = request;
    if (this.#team === undefined)
      throw new UnsupportedError(
        'This server has no team to run. Start it with --team <file>, or pass team to createServer().',
      );
    if (this.#active.has(sessionId))
      throw new ConflictError(`Session "${sessionId}" is run already. Pause it first.`, { details: { sessionId } });
    const stop = new AbortController();
    const run: TeamRun = { at, rounds, mode, status: 'running', startedAtMs: nowMs() };
    const work = this.#team.run({ ...request, signal: stop.signal });
    const done = work
      .catch((error: unknown) => ({ status: 'failed' as const, branch: undefined, error }))
      .then(({ status, branch, error }) => {
        this.#active.delete(sessionId);
        const problem = error === undefined ? {} : { problem: messageOf(error) };
        this.#note(sessionId, {
          ...run,
          status,
          ...(branch !== undefined && { branch }),
          ...problem,
          endedAtMs: nowMs(),
        });
      });
    this.#active.set(sessionId, { stop, done });
    this.#note(sessionId, run);
    return run;
  }

  /** Stops a run after what is under way, and waits for that. */
  async pause(sessionId: string): Promise<TeamRun> {
    const active = this.#active.get(sessionId);
    const run = this.#runs.get(sessionId);
    if (run === undefined)
      throw new NotFoundError(`Nothing of session "${sessionId}" was run by this server.`, { details: { sessionId } });
    active?.stop.abort();
    await active?.done;
    return this.#runs.get(sessionId) ?? run;
  }

  /** Stops all of them. */
  async close(): Promise<void> {
    const active = [...this.#active.values()];
    for (const { stop } of active) stop.abort();
    await Promise.all(active.map(({ done }) => done));
  }

  #note(sessionId: string, run: TeamRun): void {
    keepRecent(this.#runs, [sessionId, run], MAX_KNOWN);
    this.#tell(sessionId);
  }
}
