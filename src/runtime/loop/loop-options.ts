import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import * as is from '../../core/options.ts';
import { checkOptions, isRecord, type Optional, type OptionCheck, type OptionChecks } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { name } from '../../core/record/id.ts';
import { backoff } from '../../core/time/backoff.ts';
import type { OnDifference } from '../../manager/agent/agent-saving.ts';
import { leaseOptions, manager, onDifference } from '../../manager/call-options.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ManagerPorts } from '../../manager/engine/engine.ts';
import type { LeaseOptions } from '../../manager/lease/lease.ts';
import type { Session } from '../../manager/session/session.ts';
import { type DriftOptions, driftOptions } from '../drift/drift-options.ts';
import { DriftDetector } from '../drift/index.ts';
import { openLeased } from '../run/seat.ts';
import { type Earlier, findRestore, isRewound, takeUpElsewhere } from './hand-restore.ts';
import type { AgentMind } from './state/agent-state.ts';
import { checkSections, completeSections, EMPTY_SECTIONS } from './state/sections.ts';
import { AgentCheckpoints, type AgentIdentity, type CheckpointParts } from './turn/agent-checkpoints.ts';
import { type DriftReading, type DriftWatch, HEALTHY, Watch } from './turn/drift-watch.ts';
import { LiveAgent } from './turn/live-agent.ts';
import { agentMaker, checkAgent, type LoopAgent } from './turn/loop-agent.ts';
import { LoopEvents } from './turn/loop-events.ts';
import { OpenWorks } from './turn/open-works.ts';
import { OperationLog } from './turn/operation-log.ts';

/** How a loop is made. */
export type AgentLoopOptions = AgentIdentity & {
  /** Its clock and timers are the loop's, too. */
  readonly manager: CheckpointManager;
  /** Makes the agent: at the start, at a refresh, and after a drift. */
  readonly createAgent: () => LoopAgent;
  /** Default: the agent's id. */
  readonly sessionId?: string | undefined;
  /**
   * Brings the agent back, when it runs, to what it knew at this checkpoint of its session; its messages do not go back. For one
   * call, not for every start: see `docs/LOOP.md`.
   */
  readonly restoreFrom?: string | undefined;
  /**
   * If the session is of another agent, or of one of another type: `fail` (default) refuses, `warn` and `accept` take it over. Of tools and
   * settings the loop has what the code says.
   */
  readonly onDifference?: OnDifference | undefined;
  /** What a new agent begins with; fields of the context and of the memory that are left out begin empty. */
  readonly initial?:
    | {
        readonly task?: AgentMind['task'] | undefined;
        readonly context?: Optional<AgentMind['context']> | undefined;
        readonly memory?: Optional<AgentMind['memory']> | undefined;
      }
    | undefined;
  readonly settings?: Optional<LoopSettings> | undefined;
  /** `exit` ends the run at a refresh, for a supervisor that starts a new process. Default: `in-process`. */
  readonly refresh?: 'in-process' | 'exit' | undefined;
  /** The built-in detector with these options, a watch of your own, or none. Default: the detector. */
  readonly drift?: DriftOptions | { readonly watch: DriftWatch } | false | undefined;
  /** Tells a heartbeat this often, unless a turn is overdue. Default: never. */
  readonly heartbeatMs?: number | undefined;
  /** Keeps other processes from driving the same agent. */
  readonly lease?: LeaseOptions | undefined;
  /** Whether the retention policy is applied after each routine checkpoint, and space given back. Default: true. */
  readonly prune?: boolean | undefined;
};

/** When the loop does what; all of it has defaults. */
export type LoopSettings = {
  /** Between routine checkpoints: 30 minutes. */
  readonly routineEveryMs: number;
  /** From the start of a run, or the last refresh, to the next refresh: 2 hours. */
  readonly refreshEveryMs: number;
  /** A turn that takes longer is aborted, and if it does not end then, the heartbeat stops: 10 minutes. */
  readonly turnTimeoutMs: number;
  /** Failures of a message, or of the task in a row, until it is given up: 3. */
  readonly maxFailures: number;
  /** The rest after a failure; doubles with each, up to a minute: 1 second. */
  readonly retryDelayMs: number;
  /** Between two restores after drift: 10 minutes. */
  readonly restoreCooldownMs: number;
  /** Restores after drift within a day; the next drift escalates: 3. */
  readonly maxRestoresPerDay: number;
};

export const MINUTE_MS = 60_000;

const DEFAULT_SETTINGS: LoopSettings = Object.freeze({
  routineEveryMs: 30 * MINUTE_MS,
  refreshEveryMs: 120 * MINUTE_MS,
  turnTimeoutMs: 10 * MINUTE_MS,
  maxFailures: 3,
  retryDelayMs: 1000,
  restoreCooldownMs: 10 * MINUTE_MS,
  maxRestoresPerDay: 3,
});

/** The longest rest between two tries. */
const MAX_RETRY_DELAY_MS = MINUTE_MS;

/** How long to rest after so many failures in a row. */
export function retryDelayMs({ retryDelayMs: firstMs }: LoopSettings, failures: number): number {
  return backoff(failures, { firstMs, maxMs: Math.max(firstMs, MAX_RETRY_DELAY_MS) });
}

const watch = is.having('observe', 'assess', 'snapshot', 'restore', 'reset');

const drift: OptionCheck = (value) => {
  if (value === false) return undefined;
  if (!isRecord(value)) return is.accepts('options of the detector, { watch } or false', isRecord)(value);
  return 'watch' in value ? is.options({ watch: { required: watch } })(value) : driftOptions(value);
};

const fieldsOf = (section: object): OptionCheck =>
  is.options(Object.fromEntries(Object.keys(section).map((field) => [field, is.anything])));

const OPTIONS = {
  manager: { required: manager },
  agentId: { required: name },
  createAgent: { required: agentMaker },
  agentType: name,
  userId: name,
  sessionId: name,
  restoreFrom: is.filledString,
  onDifference,
  initial: is.options({
    task: is.anything,
    context: fieldsOf(EMPTY_SECTIONS.context),
    memory: fieldsOf(EMPTY_SECTIONS.memory),
  } satisfies OptionChecks<AgentMind>),
  // Each is a number that a timer can wait for.
  settings: is.options(Object.fromEntries(Object.keys(DEFAULT_SETTINGS).map((setting) => [setting, is.delayFrom(1)]))),
  refresh: is.oneOf('in-process', 'exit'),
  drift,
  heartbeatMs: is.delayFrom(1),
  lease: leaseOptions,
  prune: is.flag,
} satisfies OptionChecks<AgentLoopOptions>;

/** What the parts of one loop share. */
export type LoopParts = CheckpointParts & {
  readonly ports: ManagerPorts;
  readonly settings: LoopSettings;
  readonly checkpoints: AgentCheckpoints;
  readonly operations: OperationLog;
  readonly events: LoopEvents;
  readonly refreshMode: 'in-process' | 'exit';
  readonly heartbeatMs: number | undefined;
  readonly isPruning: boolean;
  /** What a person brings the agent back to, once everything that was recorded has been gone through. */
  readonly restore: Earlier | undefined;
};

/**
 * Checks everything that a caller said about a loop before anything is opened or taken, and opens its agent where it was left: at
 * its head, before anything that was recorded since. If that fails, nothing stays open.
 */
export async function openParts(options: AgentLoopOptions): Promise<LoopParts> {
  checkOptions(options, OPTIONS, 'AgentLoop.open()');
  const { manager, lease, agentId, sessionId = agentId } = options;
  const mind = completeSections(withoutUndefined(options.initial ?? {}));
  manager.engine.codec.encode(mind); // what could not be saved or read again is refused now
  checkSections(mind);
  const session =
    lease === undefined ? await manager.session(sessionId) : (await openLeased(manager, { sessionId }, lease)).session;
  return orClose(session, () => {
    checkIdentity(session, options);
    return putTogether(options, session, mind);
  });
}

/** Throws if the session is of another agent, unless that is wanted: what it knows would be taken for this one's. */
function checkIdentity({ id, head }: Session, { agentId, agentType, onDifference: decision }: AgentLoopOptions): void {
  const found = { agentId: head?.agentId ?? agentId, agentType: head?.agentType ?? agentType };
  const isOther = found.agentId !== agentId || (agentType !== undefined && found.agentType !== agentType);
  if (!isOther || (decision ?? 'fail') !== 'fail') return;
  const name = (who: typeof found) => `"${who.agentId}"${who.agentType === undefined ? '' : ` (${who.agentType})`}`;
  throw new InvalidInputError(
    `Session "${id}" is of agent ${name(found)}, and was to be opened for ${name({ agentId, agentType })}. Use another session, or take it over with onDifference "accept".`,
    { details: { option: 'onDifference', sessionId: id, ...found } },
  );
}

/** Lets go of a session, and of its lease, if what was to be done with it fails. */
export async function orClose<Result>(session: Session, run: () => Promise<Result>): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    await session.close().catch(() => undefined); // why it failed is what the caller must see; a lease lapses by itself
    throw error;
  }
}

async function putTogether(options: AgentLoopOptions, session: Session, mind: Partial<AgentMind>): Promise<LoopParts> {
  const { manager, agentId, agentType, userId, createAgent, drift: watched } = options;
  const { ports } = manager.engine;
  const settings = { ...DEFAULT_SETTINGS, ...withoutUndefined(options.settings ?? {}) };
  const events = new LoopEvents(manager.engine.codec);
  const { tell } = events;
  const detector =
    watched !== undefined && watched !== false && 'watch' in watched ? watched.watch : createDetector(watched);
  const live = new LiveAgent({
    createAgent: () => checkAgent(createAgent()),
    watch: new Watch(detector, { agentId, ports, timeoutMs: settings.turnTimeoutMs, tell }),
    works: new OpenWorks(session),
    mind,
    nowMs: ports.now(),
    onProblem: (section, message) => tell({ kind: 'section_failed', section, error: { name: 'Error', message } }),
  });
  const restore = await findRestore(manager, session, options.restoreFrom);
  if (isRewound(session)) await takeUpElsewhere(manager, session, live);
  else takeUp(session, live);
  const own = { manager, session, live, identity: { agentId, ...withoutUndefined({ agentType, userId }) }, tell };
  const checkpoints = new AgentCheckpoints(own);
  const operations = new OperationLog(own, checkpoints);
  await checkpoints.open();
  await operations.open();
  const { heartbeatMs, refresh: refreshMode = 'in-process', prune: isPruning = true } = options;
  return { ...own, ports, settings, checkpoints, operations, events, restore, refreshMode, heartbeatMs, isPruning };
}

function createDetector(given: DriftOptions | false | undefined): DriftWatch | undefined {
  return given === false ? undefined : new DriftDetector(given);
}

/** Takes up the state of the head as it was left: at the checkpoint of a refresh, with clean context. */
function takeUp({ head, state }: Session, live: LiveAgent): void {
  if (head === undefined) return;
  live.load(state);
  if (head.trigger === 'refresh') live.clean();
  else live.watch.reading = readHealth(head);
}

/** What was thought of the agent when it was saved holds until the watch has seen more. */
function readHealth({ metadata = {}, note }: Checkpoint): DriftReading {
  const { health, driftScore, driftSignals, driftSinceMs } = metadata;
  if (health !== 'drifting' && health !== 'suspect') return HEALTHY;
  return {
    status: health,
    score: Number(driftScore ?? 1),
    signals: Array.isArray(driftSignals) ? driftSignals : [],
    summary: note ?? '',
    ...(typeof driftSinceMs === 'number' && { sinceMs: driftSinceMs }),
  };
}
