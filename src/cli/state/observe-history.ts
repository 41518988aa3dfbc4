import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { DriftAssessment } from '../../runtime/drift/assessment.ts';
import { DriftDetector } from '../../runtime/drift/drift-detector.ts';
import type { DriftEvent } from '../../runtime/drift/step/drift-event.ts';
import type { Context } from '../base/context.ts';
import type { Output } from '../base/output-schemas.ts';
import { readLive } from '../revision/resolve-revision.ts';
import { type RecordedHealth, readHealth, readIncident, readLoopCalls, worseOf } from './loop-health.ts';
import { findChatMessages, toEvents } from './message-events.ts';

type Point = Output<'drift'>['points'][number];

/** What is to be thought after the last message, in the words of the answer. */
type Verdict = Pick<Output<'drift'>, 'status' | 'kinds' | 'agent' | 'onset' | 'summary' | 'evidence'>;

/** What a detector says of a history: after each checkpoint that brought messages, and at its end. */
export type ObservedHistory = { readonly points: Point[]; readonly last: Verdict };

/** Shows the messages of a history, or the calls of a loop, to a detector, in the order in which they came. */
export async function observeHistory(
  context: Context,
  head: Checkpoint,
  options: { readonly goal?: string },
): Promise<ObservedHistory> {
  const workspace = await context.workspace();
  const history: Checkpoint[] = [];
  for await (const checkpoint of readLive(workspace, head)) {
    await context.checkStop();
    history.push(checkpoint);
  }
  const observer = new HistoryObserver(new DriftDetector(options), await readLoopCalls(workspace, head));
  const work = { noun: 'checkpoints', total: history.length };
  for await (const checkpoint of context.watch(history.reverse(), work)) {
    const health = readHealth(checkpoint);
    if (health === undefined) observer.read(checkpoint, findChatMessages(await workspace.manager.load(checkpoint.id)));
    else observer.readLoop(checkpoint, health);
  }
  return observer.conclude();
}

/** Shows a detector what checkpoints hold, one after the other, and keeps what it says. */
class HistoryObserver {
  readonly #detector: DriftDetector;
  readonly #calls: ReadonlyMap<string, readonly DriftEvent[]>;
  readonly #owners: Checkpoint[] = [];
  readonly #points: Point[] = [];
  readonly #incidents: Verdict['evidence'] = [];
  #seen = 0;
  #latest: DriftAssessment | undefined;
  #health: RecordedHealth | undefined;

  constructor(detector: DriftDetector, calls: ReadonlyMap<string, readonly DriftEvent[]>) {
    this.#detector = detector;
    this.#calls = calls;
  }

  read(checkpoint: Checkpoint, messages: readonly unknown[]): void {
    const fresh = messages.slice(Math.min(this.#seen, messages.length));
    this.#seen = messages.length;
    this.#observe(
      checkpoint,
      fresh.flatMap((message) => toEvents(message, checkpoint.timestamp)),
    );
    if (fresh.length > 0 && this.#latest !== undefined) this.#points.push(toPoint(checkpoint, this.#latest));
  }

  /** A loop noted itself how its agent was; the calls that follow are looked at here. */
  readLoop(checkpoint: Checkpoint, health: RecordedHealth): void {
    const incident = readIncident(checkpoint);
    if (incident !== undefined) this.#incidents.push(incident);
    this.#health = health;
    this.#points.push(toLoopPoint(checkpoint, health, this.#latest));
    this.#observe(checkpoint, this.#calls.get(checkpoint.id) ?? []);
  }

  #observe(owner: Checkpoint, events: readonly DriftEvent[]): void {
    for (const event of events) {
      this.#owners.push(owner);
      this.#latest = this.#detector.observe(event);
    }
  }

  conclude(): ObservedHistory {
    const verdict = toVerdict(this.#latest, this.#owners);
    const health = this.#health;
    if (health === undefined) return { points: this.#points, last: verdict };
    const kinds = [...new Set([...health.signals, ...verdict.kinds])];
    const evidence = [...verdict.evidence, ...this.#incidents];
    return {
      points: this.#points,
      last: { ...verdict, kinds, evidence, status: worseOf(health.status, verdict.status) },
    };
  }
}

function toLoopPoint(checkpoint: Checkpoint, health: RecordedHealth, latest: DriftAssessment | undefined): Point {
  const recorded = Math.round(health.score * 1000) / 1000;
  if (latest === undefined) return toPoint(checkpoint, { status: health.status, scores: {} }, { recorded });
  return toPoint(checkpoint, { ...latest, status: worseOf(health.status, latest.status) }, { recorded });
}

function toPoint(
  { id, sequence, timestamp }: Checkpoint,
  { status, scores }: Pick<DriftAssessment, 'status' | 'scores'>,
  recorded: Readonly<Record<string, number>> = {},
): Point {
  const rounded = Object.entries(scores).map(([kind, score]) => [kind, Math.round((score ?? 0) * 1000) / 1000]);
  return {
    checkpointId: id,
    sequence,
    savedAt: timestamp.toISOString(),
    status,
    scores: { ...recorded, ...(Object.fromEntries(rounded) as Record<string, number>) },
  };
}

const NOTHING_SAID: Verdict = { status: 'healthy', kinds: [], agent: null, onset: null, summary: '', evidence: [] };

/** Events are counted by the detector; people know them by their checkpoints. */
function toVerdict(latest: DriftAssessment | undefined, owners: readonly Checkpoint[]): Verdict {
  if (latest === undefined) return NOTHING_SAID;
  const { status, kinds, agent = null, onset, summary, evidence } = latest;
  return {
    status,
    kinds: [...kinds],
    agent,
    onset: (onset === undefined ? undefined : owners[onset]?.id) ?? null,
    summary,
    evidence: evidence.map(({ signal, kind, agent: whose, nats, reason }) => ({
      signal,
      kind,
      agent: whose,
      nats,
      reason,
    })),
  };
}
