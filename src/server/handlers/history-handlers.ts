import { diffText } from '../../core/diff/diff-text.ts';
import { hasErrorCode, InvalidInputError, isLost } from '../../core/errors.ts';
import { mapValues } from '../../core/map-values.ts';
import type { LinearPattern } from '../../core/pattern/linear-pattern.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type CheckpointId, isCheckpointId } from '../../core/record/id.ts';
import { readLive } from '../../manager/revision/rounds.ts';
import { NO_TOTALS, subtractTotals } from '../../runtime/agent/agent-state.ts';
import { blame } from '../../view/blame.ts';
import { toOutput } from '../../view/checkpoint-output.ts';
import { type BranchComparison, type ComparedSide, compareBranches, originOf } from '../../view/compare-branches.ts';
import { toDiffOutput } from '../../view/diff-output.ts';
import { observeHistory } from '../../view/drift-history.ts';
import { toJsonForm } from '../../view/json-form.ts';
import { eachHead, orderBranches } from '../../view/list-sessions.ts';
import { describeCall } from '../../view/messages.ts';
import { excerptOf, type Match, patternOf, searchHistory, searchState } from '../../view/search.ts';
import { openAt, parseStatePath } from '../../view/state-path.ts';
import { viewOf } from '../../view/state-view.ts';
import { usageOf } from '../../view/usage.ts';
import type { Call, Handlers } from './call.ts';
import { headOf, openRefs, refsOf, type SessionRefs } from './session-refs.ts';
import { spanOf } from './transcript.ts';

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
    let isComplete = true;
    for await (const match of search(call)) {
      if (items.length === limit) return { items, isComplete: false };
      if (match === undefined) isComplete = false;
      else items.push(match);
    }
    return { items, isComplete };
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

type SearchCall = Call<'GET /v1/search'>;

async function* search(call: SearchCall) {
  const { session, at, text } = call.query;
  const pattern = patternOf({ text, isPlain: call.query.regex !== true, ignoresCase: call.query.case !== true });
  if (at !== undefined) return yield* searchOne(call, { id: at, pattern });
  if (session === undefined) return yield* searchHeads(call, pattern);
  yield* searchSession(call, await openRefs(call.manager, session), pattern);
}

/** The histories of a session, the current branch first: what two branches share is looked at once. */
async function* searchSession(call: SearchCall, session: SessionRefs, pattern: LinearPattern) {
  const heads = new Map(refsOf(session, 'branch').map(({ name, target }) => [name, target as CheckpointId]));
  const seen = new Set<string>();
  const { branch: named } = call.query;
  if (named !== undefined) return yield* searchBranch(call, { session, branch: named, pattern, seen });
  for (const [branch] of orderBranches(heads, session.current))
    yield* skipDamage(searchBranch(call, { session, branch, pattern, seen }));
}

type SearchedBranch = {
  readonly session: SessionRefs;
  readonly branch: string;
  readonly pattern: LinearPattern;
  /** Checkpoints that were looked at; those of this branch are added. */
  readonly seen: Set<string>;
};

async function* searchBranch({ manager, watch }: SearchCall, { session, branch, pattern, seen }: SearchedBranch) {
  const head = await manager.open(headOf(session, branch));
  const path: Checkpoint[] = [];
  let hasStart = false;
  for await (const checkpoint of watch(readLive(manager.engine.storage, head), undefined)) {
    path.push(checkpoint);
    hasStart = seen.has(checkpoint.id);
    if (hasStart) break;
    seen.add(checkpoint.id);
  }
  for await (const match of searchHistory(manager, path.reverse(), { pattern, hasStart, watch }))
    yield toItem({ sessionId: session.sessionId, branch }, match, pattern);
}

/** The heads of all branches of all sessions: what several of one session hold is told once. */
async function* searchHeads(call: SearchCall, pattern: LinearPattern) {
  const told = new Set<string>();
  for await (const { sessionId, branch, id } of call.watch(eachHead(call.manager), undefined)) {
    if (call.query.branch !== undefined && branch !== call.query.branch) continue;
    for await (const item of skipDamage(searchOne(call, { id, branch, pattern }))) {
      const key = JSON.stringify([sessionId, item?.path, item?.text]);
      if (item === undefined || !told.has(key)) yield item;
      told.add(key);
    }
  }
}

/** What is found, up to what cannot be read: that is undefined, and for verify to tell. */
async function* skipDamage<Item>(items: AsyncIterable<Item>): AsyncGenerator<Item | undefined> {
  try {
    yield* items;
  } catch (error) {
    if (!isLost(error) && !hasErrorCode(error, 'NOT_FOUND')) throw error;
    yield undefined;
  }
}

type Searched = { readonly id: string; readonly branch?: string; readonly pattern: LinearPattern };

async function* searchOne({ manager }: SearchCall, { id, branch, pattern }: Searched) {
  const checkpoint = await manager.open(id);
  const place = { sessionId: checkpoint.sessionId, branch: branch ?? checkpoint.branch };
  for await (const match of searchState(manager, checkpoint, pattern)) yield toItem(place, match, pattern);
}

function toItem(place: { readonly sessionId: string; readonly branch: string }, match: Match, pattern: LinearPattern) {
  return { ...place, ...match, text: excerptOf(match.text, pattern, MATCH_CHARS) };
}

async function compare({ manager, params, query }: Call<'GET /v1/sessions/{session}/compare'>) {
  const session = await openRefs(manager, params.session);
  const open = (text: string) => manager.open(isCheckpointId(text) ? text : headOf(session, text));
  const compared = await compareBranches(manager, { a: await open(query.a), b: await open(query.b) });
  const { a, b, forkPoint, common, lines } = compared;
  const { from, to, next } = spanOf(lines.length, DEFAULT_STEPS, query);
  const counts = { same: 0, changed: 0, only_a: 0, only_b: 0 };
  for (const { kind } of lines) counts[kind]++;
  const first = lines.findIndex(({ kind }) => kind !== 'same');
  const after = { a: saidSince(a, compared), b: saidSince(b, compared) };
  // A branch without a checkpoint of its own is at one of another branch.
  const named = (text: string) => (isCheckpointId(text) ? {} : { branch: text });
  return {
    a: { ...describeSide(a, forkPoint), messages: after.a.length, ...named(query.a) },
    b: { ...describeSide(b, forkPoint), messages: after.b.length, ...named(query.b) },
    ...(forkPoint !== undefined && { forkPoint: toOutput(forkPoint) }),
    common,
    counts,
    ...(first >= 0 && { firstDivergence: first }),
    steps: lines.slice(from, to).map(({ kind, a: inA, b: inB }) => ({
      kind,
      ...(inA !== undefined && { a: describeMessage(a, inA) }),
      ...(inB !== undefined && { b: describeMessage(b, inB) }),
    })),
    ...next,
    agents: tally(after, (said) => said.map(({ speaker }) => ({ name: speaker }))),
    tools: tally(after, (said) =>
      said.flatMap((message) => toolsOf(message).map((name) => ({ name, agent: message.speaker }))),
    ),
  };
}

/** What was said after the fork; where the messages of then are not there any more, all that is listed. */
function saidSince(side: ComparedSide, { forkPoint, common }: Pick<BranchComparison, 'forkPoint' | 'common'>) {
  return side.messages.slice(isContinued(side, forkPoint) ? usageOf(side.start).messages : common);
}

/** Whether the messages it began with are still the first ones. */
function isContinued({ counted, start }: ComparedSide, forkPoint: Checkpoint | undefined): boolean {
  const { checkpoint: oldest } = counted.at(-2) ?? {};
  const isRewritten = counted.at(-1)?.checkpoint === undefined && oldest !== undefined;
  return start === undefined || forkPoint === undefined || !isRewritten || oldest.id <= forkPoint.id;
}

function describeSide(side: ComparedSide, forkPoint: Checkpoint | undefined) {
  const { head, state, path, start } = side;
  const since = path.filter(({ id }) => forkPoint === undefined || id > forkPoint.id);
  // Of messages that are gone, nobody counts what they used.
  const totals = isContinued(side, forkPoint) ? usageOf(state).totals : undefined;
  const used = totals && subtractTotals(totals, usageOf(start).totals ?? NO_TOTALS);
  return {
    branch: head.branch,
    headId: head.id,
    sequence: head.sequence,
    ...(head.status !== undefined && { status: head.status }),
    checkpoints: since.length,
    ...(since.length > 0 && { startedAt: since.at(-1)?.timestamp.toISOString() }),
    endedAt: head.timestamp.toISOString(),
    // An edit may take away what was counted.
    ...(used !== undefined && { totals: mapValues(used, (count) => Math.max(0, count)) }),
  };
}

function describeMessage(side: ComparedSide, index: number) {
  const message = side.messages[index];
  const origin = originOf(side, index);
  return {
    index,
    speaker: message?.speaker ?? '',
    text: (message?.text || (message?.calls ?? []).map(describeCall).join(', ')).slice(0, MAX_STEP_CHARS),
    tools: message === undefined ? [] : toolsOf(message),
    ...(origin !== undefined && { checkpointId: origin.id, sequence: origin.sequence }),
  };
}

function toolsOf({ calls }: ComparedSide['messages'][number]): string[] {
  return calls.map(({ name }) => name);
}

/** How often each is on either side, the greatest difference first. */
function tally<Named extends object>(
  after: Readonly<Record<'a' | 'b', ComparedSide['messages']>>,
  listOf: (said: ComparedSide['messages']) => readonly Named[],
) {
  const counts = new Map<string, Named & { a: number; b: number }>();
  for (const side of ['a', 'b'] as const)
    for (const each of listOf(after[side])) {
      const key = JSON.stringify(each);
      const count = counts.get(key) ?? { ...each, a: 0, b: 0 };
      count[side]++;
      counts.set(key, count);
    }
  return [...counts.values()].sort((x, y) => Math.abs(y.a - y.b) - Math.abs(x.a - x.b));
}

/** Larger values are cut, unless all is asked for. */
const MAX_VALUE_CHARS = 20_000;

/** How one checkpoint differs from another. */
async function diffOf({ manager, states, query }: Call<'GET /v1/diff'>) {
  const after = await manager.open(query.after);
  const before = query.before ?? after.parentId;
  if (before === undefined)
    throw new InvalidInputError(`Checkpoint ${after.id} has no parent to compare it with. Name the one before.`);
  const found = await manager.compare(before, after.id);
  const output = toDiffOutput(found, query.path);
  const { added, removed, modified } = output;
  const { isFolded } = viewOf(await states.load(after.id));
  const changed = [...added, ...removed, ...modified].filter((change) =>
    isFolded(change.path, 'newValue' in change ? change.newValue : undefined),
  );
  return {
    ...output,
    ...(query.whole !== true && {
      added: added.map(cutLarge),
      removed: removed.map(cutLarge),
      modified: modified.map(cutLarge),
    }),
    folded: changed.map(({ path }) => path),
    ...(query.patch === true && { patch: found.patch.map((operation) => toJsonForm(operation)) }),
  };
}

/** The beginnings of values that are large, as text. */
function cutLarge<Change extends object>(change: Change): Change & { readonly isCut?: boolean } {
  let isCut = false;
  const fields = Object.entries(change).map(([field, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    if (field === 'path' || text.length <= MAX_VALUE_CHARS) return [field, value];
    isCut = true;
    return [field, text.slice(0, MAX_VALUE_CHARS)];
  });
  const shown = Object.fromEntries(fields) as Change;
  return isCut ? { ...shown, isCut } : shown;
}
