import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ManagerPorts } from '../../manager/engine/ports.ts';
import type { Session } from '../../manager/session/session.ts';
import { AgentCheckpoints, type AgentIdentity } from './agent-checkpoints.ts';
import { findRestore, type HandRestore, isRewound, takeUpElsewhere } from './hand-restore.ts';
import { type AgentLoopOptions, type ReadLoopOptions, readLoopOptions } from './loop-options.ts';
import type { LoopSettings } from './loop-settings.ts';
import { OpenWorks } from './state/open-works.ts';
import { type DriftReading, type DriftWatch, type GuardedWatch, HEALTHY } from './turn/drift-watch.ts';
import { LiveAgent } from './turn/live-agent.ts';
import { LoopEvents } from './turn/loop-events.ts';

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
  /** What a person brings the agent back to, once everything that was recorded has been gone through. */
  readonly restore: HandRestore | undefined;
};

/** Opens an agent where it was left: at its head, before anything that was recorded since. If that fails, nothing stays open. */
export async function openParts(given: AgentLoopOptions): Promise<LoopParts> {
  const options = readLoopOptions(given);
  const session = await options.manager.session(options.sessionId);
  return orClose(session, () => putTogether(options, session));
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

async function putTogether(options: ReadLoopOptions, session: Session): Promise<LoopParts> {
  const { manager, identity, settings, watch, refreshMode, heartbeatMs, isPruning } = options;
  const { ports } = manager.engine;
  if (options.lease !== undefined) await session.lease(options.lease);
  const live = new LiveAgent(options.createAgent, watch, {
    nowMs: ports.now(),
    mind: options.initial,
    works: new OpenWorks(session),
  });
  const restore = await findRestore(manager, session, options.restoreFrom);
  if (isRewound(session)) await takeUpElsewhere(manager, session, live);
  else takeUp(session, live);
  watch?.assume(live.reading);
  const events = new LoopEvents();
  const { tell } = events;
  tellOfProblems(tell, live, watch);
  const checkpoints = new AgentCheckpoints({ manager, session, live, identity, tell });
  await checkpoints.open();
  const shared = { manager, session, ports, settings, identity, live, watch, checkpoints, events, tell };
  return { ...shared, refreshMode, heartbeatMs, isPruning, restore };
}

function tellOfProblems(tell: LoopEvents['tell'], live: LiveAgent, watch: GuardedWatch | undefined): void {
  live.onProblem = (section, message) => tell({ kind: 'section_failed', section, error: { name: 'Error', message } });
  if (watch !== undefined) watch.onFailure = (error) => tell({ kind: 'watch_failed', error });
}

/** Takes up the state of the head as it was left: at the checkpoint of a refresh, with clean context. */
function takeUp({ head, state }: Session, live: LiveAgent): void {
  if (head === undefined) return;
  live.load(state);
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
