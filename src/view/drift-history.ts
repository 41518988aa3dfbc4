import { withoutUndefined } from '../core/defined.ts';
import { groupBy } from '../core/group-by.ts';
import type { Checkpoint } from '../core/record/checkpoint.ts';
import type { CheckpointManager } from '../manager/checkpoint-manager.ts';
import { parseEffect, type RecordedEffect } from '../manager/effect/effect-record.ts';
import { StateReader } from '../manager/engine/state-reader.ts';
import { readLive } from '../manager/revision/rounds.ts';
import { fieldsOf, listMessages } from '../manager/revision/transcript.ts';
import { type DriftAssessment, DriftDetector } from '../runtime/drift/drift-detector.ts';
import type { DriftEvent } from '../runtime/drift/step/drift-event.ts';
import { learn, novelty, sketchText } from '../runtime/drift/step/text-sketch.ts';
import type { Watch } from './history.ts';
import { type MessageCall, readParts, roleOf } from './messages.ts';
import type { drift, driftPoint, Shape } from './shapes.ts';
import { readMetadata, totalsIn } from './usage.ts';

/** What a detector says of a history: at its end, and after each checkpoint that brought messages. */
export type DriftHistory = Shape<typeof drift>;
type DriftPoint = Shape<typeof driftPoint>;
type Status = DriftHistory['status'];
type Evidence = DriftHistory['evidence'][number];

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
    if (health === undefined) observer.read(checkpoint, await states.read(await open(checkpoint.id)));
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
  /** Runs of words that were said or found. */
  readonly #known = new Set<number>();
  #seen = 0;
  /** Tokens that the state before counted. */
  #counted = 0;
  #latest: DriftAssessment | undefined;
  #health: RecordedHealth = { status: 'healthy', score: 0, signals: [] };
  /** The first of the checkpoints at the end with which a loop noted that its agent was not healthy. */
  #unhealthySince: Checkpoint | undefined;

  constructor(createDetector: () => DriftDetector, calls: ReadonlyMap<string, readonly DriftEvent[]>) {
    this.#createDetector = createDetector;
    this.#detector = createDetector();
    this.#calls = calls;
  }

  read(checkpoint: Checkpoint, state: unknown): void {
    const messages = listMessages(state) ?? [];
    const fresh = messages.slice(Math.min(this.#seen, messages.length));
    this.#seen = messages.length;
    const events = fresh.flatMap((message) => toEvents(message, checkpoint.timestamp));
    this.#observe(checkpoint, events);
    if (fresh.length === 0 || this.#latest === undefined) return;
    const [news, inputTokens] = [this.#newsOf(events), this.#tokensOf(state, fresh)];
    this.#note(checkpoint, this.#latest.status, withoutUndefined({ news, inputTokens }));
  }

  /** How much of what was said and found is new, by its runs of three words. */
  #newsOf(events: readonly DriftEvent[]): number | undefined {
    const text = events.flatMap(textOf).join('\n');
    const { runs } = sketchText(text);
    const news = novelty(runs, this.#known);
    learn(runs, this.#known);
    return text === '' ? undefined : news;
  }

  /** What models were given since the point before: as the state counts it, or as the messages say. */
  #tokensOf(state: unknown, fresh: readonly unknown[]): number | undefined {
    const said = fresh.flatMap((message) => readMetadata(message).totals ?? []);
    const counted = totalsIn(state);
    const total = counted.reduce((sum, { inputTokens }) => sum + inputTokens, 0);
    const since = Math.max(0, total - this.#counted);
    this.#counted = total;
    if (counted.length > 0) return since;
    return said.length === 0 ? undefined : said.reduce((sum, { inputTokens }) => sum + inputTokens, 0);
  }

  /** A loop noted itself how its agent was, and it saw more than the calls that are recorded; those that follow are looked at here. */
  readLoop(checkpoint: Checkpoint, health: RecordedHealth): void {
    this.#incidents.push(...readIncident(checkpoint));
    this.#health = health;
    if (health.status === 'healthy') this.#beginAnew();
    else this.#unhealthySince ??= checkpoint;
    this.#note(checkpoint, worseOf(health.status, this.#latest?.status), { scores: { recorded: health.score } });
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

  #note({ id, sequence, timestamp }: Checkpoint, status: Status, known: Partial<DriftPoint>): void {
    this.#points.push({
      checkpointId: id,
      sequence,
      savedAt: timestamp.toISOString(),
      status,
      repetition: this.#latest?.repetitiveness ?? 0,
      ...known,
      scores: { ...known.scores, ...this.#latest?.scores },
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
      // Events are the detector's; people know checkpoints.
      summary: summary.replace(/ since event \d+/, since === undefined ? '' : ` since #${since.sequence}`),
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
} as const;

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
  const effects = (await engine.storage.readEffects({ sessionId, branch })).map(parseEffect);
  const calls = effects.filter(({ work, inputDigest }) => work !== undefined && inputDigest !== undefined);
  const toEvents = (own: readonly RecordedEffect[]) => own.flatMap((call) => toCallEvents(call, agentId ?? sessionId));
  return new Map([...groupBy(calls, ({ afterId = '' }) => afterId)].map(([id, own]) => [id, toEvents(own)]));
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

function textOf({ text, output }: DriftEvent): string[] {
  if (text !== undefined || output === undefined) return text === undefined ? [] : [text];
  return [typeof output === 'string' ? output : (JSON.stringify(output) ?? '')];
}

function named({ id, name }: MessageCall): { readonly name: string; readonly callId?: string } {
  return { name, ...(id !== undefined && { callId: id }) };
}
