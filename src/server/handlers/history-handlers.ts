import { diffText } from '../../core/diff/diff-text.ts';
import { InvalidInputError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { isCheckpointId } from '../../core/record/id.ts';
import { readLive } from '../../manager/revision/rounds.ts';
import { blame } from '../../view/blame.ts';
import { toOutput } from '../../view/checkpoint-output.ts';
import { type ComparedSide, compareBranches, originOf } from '../../view/compare-branches.ts';
import { observeHistory } from '../../view/drift-history.ts';
import { collect } from '../../view/history.ts';
import { rankSessions } from '../../view/list-sessions.ts';
import { excerptOf, type Match, searchHistory, searchState } from '../../view/search.ts';
import { openAt, parseStatePath } from '../../view/state-path.ts';
import { usageOf } from '../../view/usage.ts';
import type { Call, Handlers } from './call.ts';
import { diffOf } from './diff.ts';
import { headOf, openRefs } from './session-refs.ts';

const DEFAULT_STEPS = 2_000;
const DEFAULT_MATCHES = 100;
const MATCH_CHARS = 400;
const MAX_STEP_CHARS = 2_000;

/** Answers what is asked about histories. */
export const HISTORY_HANDLERS = {
  'GET /v1/diff': diffOf,
  'GET /v1/text-diff': async ({ states, query }) => {
    const { before, after, path, beforePath = path } = query;
    const [old, fresh] = await Promise.all([states.load(before), states.load(after)]);
    const texts = [openAt(old, parseStatePath(beforePath)), openAt(fresh, parseStatePath(path))];
    if (!texts.every((text) => typeof text === 'string'))
      throw new InvalidInputError(`${path} is not a string in both checkpoints. GET /v1/diff compares other values.`);
    return { changes: diffText(texts[0] ?? '', texts[1] ?? '') };
  },
  'GET /v1/sessions/{session}/compare': compare,
  'GET /v1/search': async (call) => {
    const limit = call.query.limit ?? DEFAULT_MATCHES;
    const items = [];
    for await (const match of search(call)) {
      if (items.length === limit) return { items, isComplete: false };
      items.push(match);
    }
    return { items, isComplete: true };
  },
  'GET /v1/checkpoints/{checkpoint}/blame': async ({ manager, params, query, watch }) => {
    const place = { from: await manager.open(params.checkpoint), path: parseStatePath(query.path) };
    return { items: await blame(manager, place, { isWhole: query.whole ?? false, watch }) };
  },
  'GET /v1/checkpoints/{checkpoint}/drift': async ({ manager, params, query, watch }) => {
    const head = await manager.open(params.checkpoint);
    const { goal } = query;
    const found = await observeHistory(manager, head, { watch, ...(goal !== undefined && { goal }) });
    const firstAlarm = found.points.find(({ status }) => status === 'drifting')?.checkpointId;
    return { ...found, ...(firstAlarm !== undefined && { firstAlarm }) };
  },
} satisfies Partial<Handlers>;

async function* search(call: Call<'GET /v1/search'>) {
  const { manager, query, watch } = call;
  const { session, branch, at, text } = query;
  const pattern = new RegExp(text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'), query.case === true ? 'u' : 'iu');
  if (at !== undefined || session === undefined) return yield* searchStates(call, pattern);
  const head = await manager.open(headOf(await openRefs(manager, session), branch));
  const path = (await collect(watch(readLive(manager.engine.storage, head), undefined))).reverse();
  const matches = searchHistory(manager, path, { pattern, hasStart: false, watch });
  for await (const match of matches) yield toItem(head, match, pattern);
}

/** One state, or the newest of every session. */
async function* searchStates({ manager, query: { at }, watch }: Call<'GET /v1/search'>, pattern: RegExp) {
  const ids = at === undefined ? (await rankSessions(manager, false)).map(({ newestId }) => newestId) : [at];
  for await (const id of watch(ids, ids.length)) {
    const checkpoint = await manager.open(id).catch(at === undefined ? () => undefined : undefined); // verify tells of damaged heads
    const matches = checkpoint === undefined ? [] : searchState(manager, checkpoint, pattern);
    for await (const match of matches) if (checkpoint !== undefined) yield toItem(checkpoint, match, pattern);
  }
}

function toItem({ sessionId, branch }: Checkpoint, match: Match, pattern: RegExp) {
  return { sessionId, branch, ...match, text: excerptOf(match.text, pattern, MATCH_CHARS) };
}

async function compare({ manager, params, query }: Call<'GET /v1/sessions/{session}/compare'>) {
  const session = await openRefs(manager, params.session);
  const open = (text: string) => manager.open(isCheckpointId(text) ? text : headOf(session, text));
  const { a, b, forkPoint, common, lines } = await compareBranches(manager, {
    a: await open(query.a),
    b: await open(query.b),
  });
  const from = Number(query.cursor ?? 0);
  const to = from + (query.limit ?? DEFAULT_STEPS);
  const counts = { same: 0, changed: 0, only_a: 0, only_b: 0 };
  for (const { kind } of lines) counts[kind]++;
  const first = lines.findIndex(({ kind }) => kind !== 'same');
  const after = { a: a.messages.slice(common), b: b.messages.slice(common) };
  // A branch without a checkpoint of its own is at one of another branch.
  const named = (text: string) => (isCheckpointId(text) ? {} : { branch: text });
  return {
    a: { ...describeSide(a, forkPoint), ...named(query.a) },
    b: { ...describeSide(b, forkPoint), ...named(query.b) },
    ...(forkPoint !== undefined && { forkPoint: toOutput(forkPoint) }),
    common,
    counts,
    ...(first >= 0 && { firstDivergence: first }),
    steps: lines.slice(from, to).map(({ kind, a: inA, b: inB }) => ({
      kind,
      ...(inA !== undefined && { a: describeMessage(a, inA) }),
      ...(inB !== undefined && { b: describeMessage(b, inB) }),
    })),
    ...(to < lines.length && { next: String(to) }),
    agents: tally(
      after.a.map(({ speaker }) => speaker),
      after.b.map(({ speaker }) => speaker),
    ),
    tools: tally(after.a.flatMap(toolsOf), after.b.flatMap(toolsOf)),
  };
}

function describeSide({ head, state, path, messages }: ComparedSide, forkPoint: Checkpoint | undefined) {
  const since = path.filter(({ id }) => forkPoint === undefined || id > forkPoint.id);
  const { totals } = usageOf(state);
  return {
    branch: head.branch,
    headId: head.id,
    sequence: head.sequence,
    ...(head.status !== undefined && { status: head.status }),
    messages: messages.length,
    checkpoints: since.length,
    ...(since.length > 0 && { startedAt: since.at(-1)?.timestamp.toISOString() }),
    endedAt: head.timestamp.toISOString(),
    ...(totals !== undefined && { totals }),
  };
}

function describeMessage(side: ComparedSide, index: number) {
  const message = side.messages[index];
  const origin = originOf(side, index);
  return {
    index,
    speaker: message?.speaker ?? '',
    text: (message?.text ?? '').slice(0, MAX_STEP_CHARS),
    tools: message === undefined ? [] : toolsOf(message),
    ...(origin !== undefined && { checkpointId: origin.id, sequence: origin.sequence }),
  };
}

function toolsOf({ calls }: ComparedSide['messages'][number]): string[] {
  return calls.map(({ name }) => name);
}

/** How often each name is on either side, the greatest difference first. */
function tally(a: readonly string[], b: readonly string[]) {
  const names = [...new Set([...a, ...b])];
  const count = (list: readonly string[], name: string) => list.filter((each) => each === name).length;
  return names
    .map((name) => ({ name, a: count(a, name), b: count(b, name) }))
    .sort((x, y) => Math.abs(y.a - y.b) - Math.abs(x.a - x.b));
}
