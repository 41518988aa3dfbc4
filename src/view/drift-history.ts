import type { Checkpoint } from '../core/record/checkpoint.ts';
import type { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { parseEffect, type RecordedEffect } from '../manager/effect/effect-record.ts';
import { StateReader } from '../manager/engine/state-reader.ts';
import { readLive } from '../manager/revision/rounds.ts';
import { fieldsOf, listMessages } from '../manager/revision/transcript.ts';
import { type DriftAssessment, DriftDetector } from '../runtime/drift/drift-detector.ts';
import type { DriftEvent } from '../runtime/drift/step/drift-event.ts';
import type { Watch } from './history.ts';
import { type MessageCall, readParts, roleOf } from './messages.ts';

type Status = DriftAssessment['status'];
type Evidence = {
  readonly signal: string;
  readonly kind: string;
  readonly agent: string;
  readonly nats: number;
  readonly reason: string;
};

/** How strong the signs were after a checkpoint that brought messages; a score of 1 is the alarm. */
export type DriftPoint = {
  readonly checkpointId: string;
  readonly sequence: number;
  readonly savedAt: string;
  readonly status: Status;
  readonly scores: Readonly<Record<string, number>>;
};

/** What a detector says of a history: at its end, and after each checkpoint that brought messages. */
export type DriftHistory = {
  readonly status: Status;
  readonly kinds: readonly string[];
  readonly agent: string | null;
  /** The checkpoint with which it began. */
  readonly onset: string | null;
  readonly summary: string;
  readonly evidence: readonly Evidence[];
  readonly points: readonly DriftPoint[];
};

/** Shows the messages of a history, or the calls of a loop, to a detector, in the order in which they came. */
export async function observeHistory(
  manager: CheckpointManager,
  head: Checkpoint,
  { goal, watch }: { readonly goal?: string; readonly watch: Watch },
): Promise<DriftHistory> {
  const history: Checkpoint[] = [];
  for await (const checkpoint of watch(readLive(manager.engine.storage, head), undefined)) history.push(checkpoint);
  const createDetector = () => new DriftDetector(goal === undefined ? {} : { goal });
  const observer = new HistoryObserver(createDetector, await readLoopCalls(manager, head));
  const states = new StateReader(manager.engine);
  const open = (id: string) => manager.engine.repository.open(id);
  for await (const checkpoint of watch(history.reverse(), history.length)) {
    const health = readHealth(checkpoint);
    if (health === undefined)
      observer.read(checkpoint, listMessages(await states.read(await open(checkpoint.id))) ?? []);
    else observer.readLoop(checkpoint, health);
  }
  return observer.conclude();
}

/** Shows a detector what checkpoints hold, one after the other, and keeps what it says. */
class HistoryObserver {
  readonly #createDetector: () => DriftDetector;
  #detector: DriftDetector;
  readonly #calls: ReadonlyMap<string, readonly DriftEvent[]>;
  /** Events are counted by the detector; people know them by their checkpoints. */
  readonly #owners: Checkpoint[] = [];
  readonly #points: DriftPoint[] = [];
  readonly #incidents: Evidence[] = [];
  #seen = 0;
  #latest: DriftAssessment | undefined;
  #health: RecordedHealth = { status: 'healthy', score: 0, signals: [] };
  /** The first of the checkpoints at the end with which a loop noted that its agent was not healthy. */
  #unhealthySince: Checkpoint | undefined;

  constructor(createDetector: () => DriftDetector, calls: ReadonlyMap<string, readonly DriftEvent[]>) {
    this.#createDetector = createDetector;
    this.#detector = createDetector();
    this.#calls = calls;
  }

  read(checkpoint: Checkpoint, messages: readonly unknown[]): void {
    const fresh = messages.slice(Math.min(this.#seen, messages.length));
    this.#seen = messages.length;
    const events = fresh.flatMap((message) => toEvents(message, checkpoint.timestamp));
    this.#observe(checkpoint, events);
    if (fresh.length > 0 && this.#latest !== undefined) this.#note(checkpoint, this.#latest.status);
  }

  /** A loop noted itself how its agent was, and it saw more than the calls that are recorded; those that follow are looked at here. */
  readLoop(checkpoint: Checkpoint, health: RecordedHealth): void {
    this.#incidents.push(...readIncident(checkpoint));
    this.#health = health;
    if (health.status === 'healthy') this.#beginAnew();
    else this.#unhealthySince ??= checkpoint;
    this.#note(checkpoint, worseOf(health.status, this.#latest?.status), { recorded: health.score });
    this.#observe(checkpoint, this.#calls.get(checkpoint.id) ?? []);
  }

  #beginAnew(): void {
    this.#detector = this.#createDetector();
    this.#owners.length = 0;
    this.#latest = undefined;
    this.#unhealthySince = undefined;
  }

  #observe(owner: Checkpoint, events: readonly DriftEvent[]): void {
    for (const event of events) {
      this.#owners.push(owner);
      this.#latest = this.#detector.observe(event);
    }
  }

  #note({ id, sequence, timestamp }: Checkpoint, status: Status, recorded: Record<string, number> = {}): void {
    this.#points.push({
      checkpointId: id,
      sequence,
      savedAt: timestamp.toISOString(),
      status,
      scores: { ...recorded, ...this.#latest?.scores },
    });
  }

  conclude(): DriftHistory {
    const { status, kinds, agent, onset, summary, evidence } = this.#latest ?? NOTHING_SAID;
    const since = this.#owners[onset ?? -1] ?? this.#unhealthySince;
    return {
      status: worseOf(status, this.#health.status),
      kinds: [...new Set([...this.#health.signals, ...kinds])],
      agent: agent ?? since?.agentId ?? null,
      onset: since?.id ?? null,
      summary,
      evidence: [...evidence.map(toEvidence), ...this.#incidents],
      points: this.#points,
    };
  }
}

const NOTHING_SAID = {
  status: 'healthy',
  kinds: [],
  agent: undefined,
  onset: undefined,
  summary: '',
  evidence: [],
} as const satisfies Partial<DriftAssessment>;

function toEvidence({ signal, kind, agent, nats, reason }: Evidence): Evidence {
  return { signal, kind, agent, nats, reason };
}

/** What a loop noted about its agent with a checkpoint. */
type RecordedHealth = { readonly status: Status; readonly score: number; readonly signals: readonly string[] };

const STATUSES: readonly Status[] = ['healthy', 'suspect', 'drifting'];

/** Reads the health that a loop recorded; undefined for checkpoints of anything else. */
function readHealth({ metadata }: Checkpoint): RecordedHealth | undefined {
  const { health, driftScore, driftSignals } = fieldsOf(metadata);
  const status = STATUSES.find((known) => known === health);
  if (status === undefined || typeof driftScore !== 'number') return undefined;
  return { status, score: driftScore, signals: Array.isArray(driftSignals) ? driftSignals.map(String) : [] };
}

function worseOf(a: Status, b: Status = 'healthy'): Status {
  return STATUSES.indexOf(a) > STATUSES.indexOf(b) ? a : b;
}

/** What a loop wrote down when its agent drifted, was restored or escalated. */
function readIncident({ type, trigger, note, agentId, sessionId }: Checkpoint): Evidence[] {
  if (type !== 'recovery' || trigger === undefined) return [];
  return [{ signal: trigger, kind: 'recorded', agent: agentId ?? sessionId, nats: 0, reason: note ?? '' }];
}

/**
 * The calls of a loop's agent, by the checkpoints they were made after, as the loop shows them to its own watch: those with an input,
 * of which the digest is recorded, each with what it was made for.
 */
async function readLoopCalls(
  { engine }: CheckpointManager,
  { sessionId, branch, agentId }: Checkpoint,
): Promise<ReadonlyMap<string, readonly DriftEvent[]>> {
  const calls = new Map<string, DriftEvent[]>();
  for (const row of await engine.storage.readEffects({ sessionId, branch })) {
    const effect = parseEffect(row);
    if (effect.work === undefined || effect.inputDigest === undefined) continue;
    const known = calls.get(effect.afterId ?? '') ?? [];
    calls.set(effect.afterId ?? '', [...known, ...toCallEvents(effect, agentId ?? sessionId)]);
  }
  return calls;
}

function toCallEvents(effect: RecordedEffect, agent: string): DriftEvent[] {
  const { name, ordinal, startedAtMs, durationMs = 0, inputDigest: input, work: job = '', status, result } = effect;
  const callId = String(ordinal);
  const call: DriftEvent = { kind: 'call', agent, job, name, callId, input, at: startedAtMs };
  if (status === 'started') return [call];
  const output = result?.text ?? '';
  return [call, { kind: 'result', name, callId, output, isError: status === 'failed', at: startedAtMs + durationMs }];
}

const ROLES: Readonly<Record<string, string>> = { human: 'user', ai: 'agent', chat: 'agent' };

/** A message as what a drift detector watches: the calls of its turn, their results, and what was said. */
export function toEvents(message: unknown, time: Date): DriftEvent[] {
  const role = roleOf(message);
  if (role === undefined) return [];
  const { speaker: agent, text, calls, results } = readParts(message);
  const at = time.getTime();
  const said: DriftEvent[] = text === '' ? [] : [{ kind: 'message', agent, text, at, role: ROLES[role] ?? role }];
  return [
    ...calls.map((call): DriftEvent => ({ kind: 'call', agent, ...named(call), input: call.input, at })),
    ...results.map((result): DriftEvent => {
      const { output, isError } = result;
      return { kind: 'result', ...named(result), output, isError, at };
    }),
    ...said,
  ];
}

function named({ id, name }: MessageCall): { readonly name: string; readonly callId?: string } {
  return { name, ...(id !== undefined && { callId: id }) };
}
