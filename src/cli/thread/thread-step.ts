import { timeOfGraphId } from '../../adapter/langgraph/record/checkpoint-id.ts';
import { findGraphHeader } from '../../adapter/langgraph/record/graph-header.ts';
import { placeOf } from '../../adapter/langgraph/record/thread-session.ts';
import { bucketOf, decodeWrites, parseWrites } from '../../adapter/langgraph/record/write-record.ts';
import { UnsupportedError } from '../../core/errors.ts';
import { formatPath } from '../../core/path.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { engineOf } from '../../manager/engine/engine.ts';
import { fieldsOf } from '../../manager/revision/transcript.ts';
import { formatValue } from '../../view/json-form.ts';
import { readMessage } from '../../view/messages.ts';
import { viewOf } from '../../view/state-view.ts';
import type { Context } from '../base/context.ts';
import type { OpenStorage } from '../base/open-storage.ts';
import { clip } from '../terminal/format.ts';

/** What a step of a graph did, as people tell it. */
export type ThreadStep = {
  readonly step: string;
  /** The nodes that ran; where none did, why the checkpoint is there. */
  readonly node: string;
  readonly what: string;
  /** When the graph made it: those that were imported are saved later. */
  readonly madeAt: Date;
};

type Change = { readonly path: string; readonly newValue?: unknown };

const NODE = /^\$\.versions_seen(?:\.([^.[]+)|\["((?:[^"\\]|\\.)*)"\])/;
const CHANNEL = /^\$\.channel_values(?:\.([^.[]+)|\["((?:[^"\\]|\\.)*)"\])/;
/** The node in front of all others. */
const START = '__start__';
/** Long enough for any screen; the table cuts it to its width, and a line end would break it. */
const VALUE_CHARS = 200;
const LINE_CHARS = 1_000;

/** A step on one line. */
export function formatStep({ step, node, what }: ThreadStep): string {
  return [`step ${step}`, node, what].filter((part) => part !== '').join(' ');
}

/** Tells what a checkpoint of a thread is about, from what it changed, so that it costs what a step is; undefined for any other. */
export async function readThreadStep(opened: OpenStorage, checkpoint: Checkpoint): Promise<ThreadStep | undefined> {
  const graph = findGraphHeader(checkpoint);
  if (graph === undefined) return undefined;
  const { step, source } = fieldsOf(checkpoint.metadata);
  const changes = await readChanges(opened, checkpoint);
  const nodes = namesIn(changes, NODE).filter((name) => !name.startsWith('__') || name === START);
  const asked = (await readInterrupts(opened, checkpoint)).map(formatAsked);
  const said = checkpoint.parentId === undefined && source === 'loop' ? [] : describeChanges(changes);
  return {
    step: typeof step === 'number' ? String(step) : '',
    node: nodes.length > 0 ? nodes.join(', ').replace(START, 'start') : String(source ?? ''),
    what: clip([...said, ...asked].join('; '), LINE_CHARS),
    madeAt: timeOfGraphId(graph.id) ?? checkpoint.timestamp,
  };
}

/** What is new since the parent. Of the first checkpoint, or one whose parent was deleted: all of it. */
async function readChanges({ manager }: OpenStorage, { id, parentId }: Checkpoint): Promise<Change[]> {
  const hasParent = parentId !== undefined && (await manager.get(parentId)) !== undefined;
  if (hasParent) {
    const { added, modified, removed } = await manager.compare(parentId, id);
    return [...modified, ...added, ...removed.map(({ path }) => ({ path }))];
  }
  const { channel_values: values } = fieldsOf(await manager.load(id));
  return Object.entries(fieldsOf(values)).map(([name, value]) => ({
    path: formatPath(['channel_values', name]),
    newValue: value,
  }));
}

function namesIn(changes: readonly Change[], pattern: RegExp): string[] {
  const names = changes.flatMap(({ path }) => {
    const [, plain, quoted] = pattern.exec(path) ?? [];
    return plain ?? (quoted === undefined ? [] : (JSON.parse(`"${quoted}"`) as string));
  });
  return [...new Set(names)];
}

/** Messages as they were said; of other channels the name and what came. */
function describeChanges(changes: readonly Change[]): string[] {
  const { isFolded } = viewOf({ channel_values: {}, channel_versions: {} });
  return changes
    .filter((change) => 'newValue' in change && CHANNEL.test(change.path) && !isFolded(change.path))
    .flatMap(({ path, newValue }) => [newValue].flat().map((value) => describeChange(path, value)));
}

function describeChange(path: string, value: unknown): string {
  const message = readMessage(value);
  if (message !== undefined) return `${message.speaker}: ${message.text}`;
  return `${namesIn([{ path }], CHANNEL).join('')} + ${formatValue(value).slice(0, VALUE_CHARS)}`;
}

/** A question of a graph to a person, and what was answered. */
type Interrupt = { readonly question: string; readonly answer: string | undefined };

/** How LangGraph calls these among the writes of its tasks. */
const ASKED = '__interrupt__';
const ANSWERED = '__resume__';

/** What the graph asked at a checkpoint, oldest first. */
async function readInterrupts(opened: OpenStorage, checkpoint: Checkpoint): Promise<Interrupt[]> {
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
function formatAsked({ question, answer }: Interrupt): string {
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

/** Tells whoever moved in a thread of LangGraph that its graph does not follow, and which call lets it; says nothing of other sessions. */
export function tellGraphMove(context: Context, target: Checkpoint, { isEdited = false } = {}): void {
  if (!isThread(target)) return;
  context.say(
    'LangGraph does not follow branches: its graph continues from the latest checkpoint that it saved itself.',
  );
  const config = formatConfig(target);
  if (config === undefined) return;
  context.say(
    isEdited
      ? `To continue from an edited state: graph.updateState(${config}, values)`
      : `To continue from here: graph.invoke(null, ${config})`,
  );
}

/** Refuses to go on in a thread of LangGraph, which only its graph can, and says with which call it does. */
export async function refuseThread(context: Context, target: Checkpoint): Promise<void> {
  if (!isThread(target)) return;
  const config = formatConfig(target);
  const open = (await readInterrupts(await context.open(), target)).filter(({ answer }) => answer === undefined);
  const input = open.length === 0 ? 'null' : 'new Command({ resume: answer })';
  const asked = open.length === 0 ? '' : ` It ${open.map(formatAsked).join('; ')}`;
  throw new UnsupportedError(
    `Session "${target.sessionId}" is a thread of LangGraph, which only its graph can continue.${asked}
In your program: ${config === undefined ? 'graph.invoke(...)' : `graph.invoke(${input}, ${config})`}`,
    { details: { sessionId: target.sessionId, checkpointId: target.id } },
  );
}

function isThread(target: Checkpoint): boolean {
  return findGraphHeader(target) !== undefined || placeOf(target.sessionId) !== undefined;
}

/** What tells a graph where to go on; undefined for a checkpoint that it did not save. */
function formatConfig(target: Checkpoint): string | undefined {
  const graph = findGraphHeader(target);
  if (graph === undefined) return undefined;
  const { threadId, namespace } = graph.place;
  return JSON.stringify({
    configurable: { thread_id: threadId, checkpoint_ns: namespace, checkpoint_id: graph.id },
  });
}
