import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { parseEffect, type RecordedEffect } from '../../manager/effect/effect-record.ts';
import type { DriftEvent } from '../../runtime/drift/step/drift-event.ts';
import type { Output } from '../base/output-schemas.ts';
import type { Workspace } from '../base/workspace.ts';
import { fieldsOf } from './state-view.ts';

type DriftOutput = Output<'drift'>;
type Status = DriftOutput['status'];

/** What a loop noted about its agent with a checkpoint. */
export type RecordedHealth = {
  readonly status: Status;
  readonly score: number;
  readonly signals: readonly string[];
};

const STATUSES: readonly Status[] = ['healthy', 'suspect', 'drifting'];

/** Reads the health that a loop recorded; undefined for checkpoints of anything else. */
export function readHealth({ metadata }: Checkpoint): RecordedHealth | undefined {
  const { health, driftScore, driftSignals } = fieldsOf(metadata);
  const status = STATUSES.find((known) => known === health);
  if (status === undefined || typeof driftScore !== 'number') return undefined;
  return { status, score: driftScore, signals: Array.isArray(driftSignals) ? driftSignals.map(String) : [] };
}

/** The worse of two. */
export function worseOf(a: Status, b: Status): Status {
  return STATUSES.indexOf(a) > STATUSES.indexOf(b) ? a : b;
}

/** What a loop wrote down when its agent drifted, was restored or escalated. */
export function readIncident(checkpoint: Checkpoint): DriftOutput['evidence'][number] | undefined {
  const { type, trigger, note, agentId, sessionId } = checkpoint;
  if (type !== 'recovery' || trigger === undefined) return undefined;
  return { signal: trigger, kind: 'recorded', agent: agentId ?? sessionId, nats: 0, reason: note ?? '' };
}

/** The calls of a loop's agent, by the checkpoints they were made after. Of what was passed to them the digest is recorded. */
export async function readLoopCalls(
  { storage }: Workspace,
  { sessionId, branch, agentId }: Checkpoint,
): Promise<ReadonlyMap<string, readonly DriftEvent[]>> {
  const calls = new Map<string, DriftEvent[]>();
  for (const row of await storage.readEffects({ sessionId, branch })) {
    const effect = parseEffect(row);
    const known = calls.get(effect.afterId ?? '') ?? [];
    calls.set(effect.afterId ?? '', [...known, ...toCallEvents(effect, agentId ?? sessionId)]);
  }
  return calls;
}

function toCallEvents(effect: RecordedEffect, agent: string): DriftEvent[] {
  const { name, ordinal, startedAtMs, durationMs = 0, inputDigest, status, result } = effect;
  const callId = String(ordinal);
  const call: DriftEvent = { kind: 'call', agent, name, callId, input: inputDigest ?? null, at: startedAtMs };
  if (status === 'started') return [call];
  const output = result?.text ?? '';
  return [call, { kind: 'result', name, callId, output, isError: status === 'failed', at: startedAtMs + durationMs }];
}
