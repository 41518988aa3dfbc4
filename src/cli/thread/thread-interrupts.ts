import { findGraphHeader } from '../../adapter/langgraph/record/graph-header.ts';
import { bucketOf, decodeWrites, parseWrites } from '../../adapter/langgraph/record/write-record.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { engineOf } from '../../manager/engine/engine.ts';
import { fieldsOf } from '../../manager/revision/transcript.ts';
import { formatValue } from '../../view/json-form.ts';
import type { OpenStorage } from '../base/open-storage.ts';

/** A question of a graph to a person, and what was answered. */
export type Interrupt = { readonly question: string; readonly answer: string | undefined };

/** How LangGraph calls these among the writes of its tasks. */
const ASKED = '__interrupt__';
const ANSWERED = '__resume__';

/** What the graph asked at a checkpoint, oldest first. */
export async function readInterrupts(opened: OpenStorage, checkpoint: Checkpoint): Promise<Interrupt[]> {
  const graph = findGraphHeader(checkpoint);
  if (graph === undefined) return [];
  const writes = await readWrites(opened, checkpoint, graph.id);
  const answers = writes.filter(([channel]) => channel === ANSWERED).flatMap(([, value]) => value);
  const questions = writes.filter(([channel]) => channel === ASKED).flatMap(([, value]) => value);
  return questions.map((question, at) => ({
    question: toText(fieldsOf(question).value ?? question),
    answer: at < answers.length ? toText(answers[at]) : undefined,
  }));
}

/** An interrupt in a few words. */
export function formatAsked({ question, answer }: Interrupt): string {
  return answer === undefined ? `waits for an answer: ${question}` : `asked: ${question} answered: ${answer}`;
}

type Write = readonly [channel: string, value: unknown];

async function readWrites(opened: OpenStorage, { sessionId }: Checkpoint, graphId: string): Promise<Write[]> {
  const rows = await opened.storage.readEffects({ sessionId, branch: bucketOf(sessionId, graphId) });
  const { codec, repository } = engineOf(opened.manager);
  const found: Write[] = [];
  for (const row of rows) {
    const stored = parseWrites(row);
    if (stored?.result === undefined || !stored.writes.some(([channel]) => channel === ASKED || channel === ANSWERED))
      continue;
    const find = await repository.loadChunks({ text: '', refs: stored.result.refs });
    const values = decodeWrites(codec, stored, { find });
    for (const [at, [channel]] of stored.writes.entries()) found.push([channel, values[at]]);
  }
  return found;
}

function toText(value: unknown): string {
  return typeof value === 'string' ? value : formatValue(value);
}
