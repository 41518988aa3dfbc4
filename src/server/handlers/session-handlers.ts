import { withoutUndefined } from '../../core/defined.ts';
import { readNotes } from '../../manager/branch/notes.ts';
import { parseRows, readPages } from '../../manager/engine/records.ts';
import { Scale } from '../../manager/figures/scale.ts';
import { parseHolder } from '../../manager/lease/lease-refs.ts';
import { isAnswerBranch } from '../../manager/revision/ref-name.ts';
import { readNames, toOutput } from '../../view/checkpoint-output.ts';
import { unlessDamaged } from '../../view/label.ts';
import { type DescribedSession, describeSession, type RankedSession, rankSessions } from '../../view/list-sessions.ts';
import { usageOf } from '../../view/usage.ts';
import type { Call, Handlers } from './call.ts';
import { isAnswered } from './run-handlers.ts';
import { headOf, openRefs, refsOf, type SessionRefs, tagOf } from './session-refs.ts';
import { readTimeline, readTimelineOf } from './timeline.ts';

const DEFAULT_SESSIONS = 100;
const DEFAULT_CHECKPOINTS = 20_000;

/** Answers what is asked about sessions. */
export const SESSION_HANDLERS = {
  'GET /v1/server': async ({ manager, version, label, address, isReadOnly, memory, teamRuns }) => {
    const { storage } = manager.engine;
    const { kind, watch, limits } = storage;
    return {
      version,
      storage: label ?? address ?? kind,
      ...withoutUndefined({ address }),
      kind,
      isReadOnly,
      hasMemory: memory !== undefined,
      ...withoutUndefined({ team: teamRuns.label }),
      hasWatch: watch !== undefined,
      limits,
      offers: (['foldTombstones', 'dropEffects', 'now', 'countForgotten'] as const).filter(
        (name) => storage[name] !== undefined,
      ),
    };
  },
  'GET /v1/sessions': listSessions,
  'GET /v1/sessions/{session}': async ({ manager, params }) => {
    const session = await openRefs(manager, params.session);
    return {
      id: session.sessionId,
      currentBranch: session.current,
      ...describeRefs(session),
      ...(await describeHead(manager, session)),
    };
  },
  'GET /v1/sessions/{session}/figures': async (call) => {
    const session = await openRefs(call.manager, call.params.session);
    const [newest] = await call.manager.engine.storage.listCheckpoints({ order: 'newest', limit: 1, include: 'all' });
    const count = await countLive(call, session); // what is deleted leaves the refs as they are
    const place = `${session.sessionId} ${tagOf(session)} ${newest?.id} ${count}`;
    return call.figures.get(place, () => measure(call, session));
  },
  'GET /v1/sessions/{session}/timeline': async ({ manager, params, query, signal }) => {
    const { sessionId } = await openRefs(manager, params.session);
    if (query.ids !== undefined) return readTimelineOf(manager, sessionId, query.ids);
    const { limit = DEFAULT_CHECKPOINTS, cursor: after, last: isLast = false } = query;
    return readTimeline(manager, sessionId, { limit, after, isLast, signal });
  },
} satisfies Partial<Handlers>;

async function listSessions(call: Call<'GET /v1/sessions'>) {
  const { manager, query, watch } = call;
  const { limit = DEFAULT_SESSIONS, cursor, status, subgraphs = false } = query;
  const text = query.text?.toLowerCase();
  const ranked = (await rankSessions(manager, subgraphs)).filter(({ newestId }) => !(cursor && newestId >= cursor));
  const items: DescribedSession[] = [];
  const damaged: string[] = [];
  let last: RankedSession | undefined;
  for await (const session of watch(ranked, ranked.length)) {
    if (items.length === limit) return { items, damaged, next: last?.newestId };
    last = session;
    const described = await describeHeard(call, session);
    if (described === 'forgotten') continue;
    if (described === undefined) damaged.push(session.id);
    else if (isWanted(described, { text, status })) items.push(described);
  }
  return { items, damaged };
}

/** A session; one that waits is `answered` once nobody is asked any more and its run has only to be continued. */
async function describeHeard(
  { manager, states }: Call<'GET /v1/sessions'>,
  session: RankedSession,
): Promise<DescribedSession | 'forgotten' | undefined> {
  const described = await describeSession(manager, session);
  if (described === 'forgotten') return described;
  const isWaiting = /^(waiting|suspended)/.test(described?.status ?? '');
  if (described?.headId === undefined || !isWaiting || ![...session.heads.keys()].some(isAnswerBranch))
    return described;
  const { id: sessionId, currentBranch: branch, headId } = described;
  const state = await states.load(headId).catch(unlessDamaged);
  return (await isAnswered(manager, { sessionId, branch, state })) ? { ...described, status: 'answered' } : described;
}

function isWanted(
  { id, agentId = '', userId = '', status }: DescribedSession,
  wanted: { readonly text: string | undefined; readonly status: string | undefined },
): boolean {
  const names = [id, agentId, userId].join('\n').toLowerCase();
  return (
    (wanted.text === undefined || names.includes(wanted.text)) &&
    (wanted.status === undefined || status === wanted.status)
  );
}

function describeRefs(session: SessionRefs) {
  const holders = refsOf(session, 'lease').map(({ name, target }) => ({ branch: name, ...parseHolder(target) }));
  return {
    branches: refsOf(session, 'branch').map(({ name, target }) => ({
      name,
      headId: target,
      isAnswer: isAnswerBranch(name),
    })),
    tags: refsOf(session, 'tag').map(({ name, target }) => ({ name, checkpointId: target })),
    pins: refsOf(session, 'pin').map(({ target }) => target),
    notes: readNotes(session.refs).map(({ savedAtMs, ...note }) => ({
      ...note,
      savedAt: new Date(savedAtMs).toISOString(),
    })),
    leases: holders
      .filter(({ holder }) => holder !== '')
      .map(({ branch, holder, owner = holder }) => ({ branch, holder: owner })),
  };
}

/** The head, unless it is damaged: then the rest can still be looked at. */
async function describeHead(manager: Call<'GET /v1/sessions'>['manager'], session: SessionRefs) {
  if (refsOf(session, 'branch').length === 0) return {};
  const head = await manager.get(headOf(session)).catch(() => undefined);
  return head === undefined ? {} : { head: toOutput(head, await readNames(manager, session.sessionId)) };
}

async function countLive({ manager }: Call<'GET /v1/sessions/{session}/figures'>, { sessionId }: SessionRefs) {
  let count = 0;
  for await (const rows of readPages(manager.engine.storage, { sessionId, order: 'oldest' })) count += rows.length;
  return count;
}

async function measure({ manager, states, signal }: Call<'GET /v1/sessions/{session}/figures'>, session: SessionRefs) {
  const { storage } = manager.engine;
  const scale = new Scale(storage);
  let [checkpoints, tombstones, logicalBytes, damaged] = [0, 0, 0, 0];
  for await (const rows of readPages(storage, { sessionId: session.sessionId, order: 'oldest', include: 'all' })) {
    const live = rows.filter(({ isDeleted }) => !isDeleted);
    const read = await parseRows(live);
    checkpoints += live.length;
    tombstones += rows.length - live.length;
    damaged += read.damaged.length;
    for (const checkpoint of read.checkpoints) {
      logicalBytes += checkpoint.stateBytes;
      await scale.add(checkpoint, signal);
    }
  }
  const state = checkpoints === 0 ? undefined : await states.load(headOf(session)).catch(unlessDamaged);
  const found = damaged + scale.damaged;
  return {
    checkpoints,
    tombstones,
    logicalBytes,
    uniqueBytes: scale.totalBytes,
    damaged: found,
    usage: usageOf(state),
  };
}
