import type { Checkpoint } from '../../core/checkpoint.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { LeaseOptions } from '../../manager/lease-acquisition.ts';
import { partsOf } from '../../manager/manager-parts.ts';
import type { ManagerPorts } from '../../manager/ports.ts';
import type { Session } from '../../manager/session.ts';
import type { DriftOptions } from '../drift/index.ts';
import { AgentCheckpoints, type AgentIdentity } from './agent-checkpoints.ts';
import type { AgentMind, AgentState } from './agent-state.ts';
import { DetectorWatch, type DriftReading, type DriftWatch, HEALTHY } from './drift-watch.ts';
import { LiveAgent } from './live-agent.ts';
import type { LoopAgent } from './loop-agent.ts';
import { LoopEvents } from './loop-events.ts';
import { checkSetting, type LoopSettings, readSettings } from './loop-settings.ts';

/** How a loop is made. */
export type AgentLoopOptions = AgentIdentity & {
  /** Its clock and timers are the loop's, too. */
  readonly manager: CheckpointManager;
  /** Makes the agent: at the start, at a refresh, and after a drift. */
  readonly createAgent: () => LoopAgent;
  /** Default: the agent's id. */
  readonly sessionId?: string;
  /** What a new agent begins with. */
  readonly initial?: Partial<AgentMind>;
  readonly settings?: Partial<LoopSettings>;
  /** `exit` ends the run at a refresh, for a supervisor that starts a new process. Default: `in-process`. */
  readonly refresh?: 'in-process' | 'exit';
  /** The built-in detector with these options, a watch of your own, or none. Default: the detector. */
  readonly drift?: DriftOptions | { readonly watch: DriftWatch } | false;
  /** Tells a heartbeat this often, unless a turn is overdue. Default: never. */
  readonly heartbeatMs?: number;
  /** Keeps other processes from driving the same agent. */
  readonly lease?: LeaseOptions;
  /** Whether the retention policy is applied after each routine checkpoint, and space given back. Default: true. */
  readonly prune?: boolean;
};

/** What the parts of one loop share. */
export type LoopParts = {
  readonly manager: CheckpointManager;
  readonly session: Session;
  readonly ports: ManagerPorts;
  readonly settings: LoopSettings;
  readonly identity: AgentIdentity;
  readonly live: LiveAgent;
  readonly watch: DriftWatch | undefined;
  readonly checkpoints: AgentCheckpoints;
  readonly events: LoopEvents;
  readonly tell: LoopEvents['tell'];
  readonly refreshMode: 'in-process' | 'exit';
  readonly heartbeatMs: number | undefined;
  readonly isPruning: boolean;
};

/** Opens an agent where it was left: at its head, before anything that was recorded since. */
export async function openParts(options: AgentLoopOptions): Promise<LoopParts> {
  const { manager, agentId, agentType, userId, initial = {} } = options;
  const { ports } = partsOf(manager).context;
  const settings = readSettings(options.settings);
  if (options.heartbeatMs !== undefined) checkSetting('heartbeatMs', options.heartbeatMs);
  const session = await manager.session(options.sessionId ?? agentId);
  if (options.lease !== undefined) await session.lease(options.lease);
  const watch = createWatch(options.drift, ports);
  const live = new LiveAgent(options.createAgent, watch, { nowMs: ports.now(), mind: initial });
  takeUp(session, live);
  const events = new LoopEvents();
  const { tell } = events;
  const identity = { agentId, ...(agentType !== undefined && { agentType }), ...(userId !== undefined && { userId }) };
  const checkpoints = new AgentCheckpoints({ manager, session, live, identity, tell });
  await checkpoints.open();
  const shared = { manager, session, ports, settings, identity, live, watch, checkpoints, events, tell };
  const { refresh: refreshMode = 'in-process', heartbeatMs, prune: isPruning = true } = options;
  return { ...shared, refreshMode, heartbeatMs, isPruning };
}

/** Takes up the state of the head as it was left: at the checkpoint of a refresh, with clean context. */
function takeUp({ head, state }: Session, live: LiveAgent): void {
  if (head === undefined) return;
  live.load(state as Partial<AgentState>);
  if (head.trigger === 'refresh') live.clean();
  else live.reading = readHealth(head);
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

function createWatch(given: AgentLoopOptions['drift'], { now }: ManagerPorts): DriftWatch | undefined {
  if (given === false) return undefined;
  return given !== undefined && 'watch' in given ? given.watch : new DetectorWatch(now, given);
}
