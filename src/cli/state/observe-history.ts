import type { Checkpoint } from '../../core/checkpoint.ts';
import type { DriftAssessment } from '../../runtime/drift/assessment.ts';
import { DriftDetector } from '../../runtime/drift/drift-detector.ts';
import type { Context } from '../context.ts';
import type { Output } from '../output-schemas.ts';
import { readLive } from '../revision/resolve-revision.ts';
import { findChatMessages, toEvents } from './message-events.ts';

type Point = Output<'drift'>['points'][number];

/** What is to be thought after the last message, in the words of the answer. */
type Verdict = Pick<Output<'drift'>, 'status' | 'kinds' | 'agent' | 'onset' | 'summary' | 'evidence'>;

/** What a detector says of a history: after each checkpoint that brought messages, and at its end. */
export type ObservedHistory = { readonly points: Point[]; readonly last: Verdict };

/** Shows the messages of a history to a detector, in the order in which they came. */
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
  const detector = new DriftDetector(options);
  const owners: Checkpoint[] = [];
  const points: Point[] = [];
  let [seen, latest]: [number, DriftAssessment | undefined] = [0, undefined];
  const bar = context.progress({ noun: 'checkpoints', total: history.length });
  for (const [at, checkpoint] of history.reverse().entries()) {
    await context.checkStop();
    bar.show(at);
    const messages = findChatMessages(await workspace.manager.load(checkpoint.id));
    const fresh = messages.slice(Math.min(seen, messages.length));
    seen = messages.length;
    for (const event of fresh.flatMap((message) => toEvents(message, checkpoint.timestamp))) {
      owners.push(checkpoint);
      latest = detector.observe(event);
    }
    if (fresh.length > 0 && latest !== undefined) points.push(toPoint(checkpoint, latest));
  }
  bar.end();
  return { points, last: toVerdict(latest, owners) };
}

function toPoint({ id, sequence, timestamp }: Checkpoint, { status, scores }: DriftAssessment): Point {
  const rounded = Object.entries(scores).map(([kind, score]) => [kind, Math.round((score ?? 0) * 1000) / 1000]);
  return {
    checkpointId: id,
    sequence,
    savedAt: timestamp.toISOString(),
    status,
    scores: Object.fromEntries(rounded) as Record<string, number>,
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
