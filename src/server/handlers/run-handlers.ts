import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError, UnsupportedError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { readLive } from '../../manager/revision/rounds.ts';
import { fieldsOf } from '../../manager/revision/transcript.ts';
import type { FleetRecord } from '../../runtime/fleet/fleet-state.ts';
import { type AnyRequest, RequestAnswers } from '../../runtime/run/request-answers.ts';
import type { RunState } from '../../runtime/workflow/step/run-state.ts';
import { toJsonForm } from '../../view/json-form.ts';
import { type RankedSession, rankSessions } from '../../view/list-sessions.ts';
import {
  findOpenRequests,
  REQUEST_FORMS,
  type RunKind,
  type RunPlace,
  requestsIn,
  runKindOf,
} from '../../view/requests.ts';
import type { Call, Handlers } from './call.ts';
import { checkInside, headOf, openRefs } from './session-refs.ts';

const DEFAULT_RUNS = 50;
/** Those who wait for somebody are among the sessions that were used last. */
const MAX_LOOKED_AT = 500;

/** Answers what is asked about runs. */
export const RUN_HANDLERS = {
  'GET /v1/requests': async (call) => {
    const { manager, query } = call;
    if (query.session !== undefined) {
      const session = await openRefs(manager, query.session);
      return { items: await listPending(call, await manager.open(headOf(session)), session.current) };
    }
    const items = [];
    const isOpen = (status: string | undefined) => status !== undefined && status !== 'completed';
    for await (const { head, branch } of readHeads(call, isOpen))
      items.push(...(await listPending(call, head, branch)));
    return { items };
  },
  'POST /v1/sessions/{session}/requests/{request}': async ({ manager, states, params, body }) => {
    const session = await openRefs(manager, params.session);
    const { answer, by, value, branch = session.current } = body;
    const state = await states.load(headOf(session, branch));
    const answers = new RequestAnswers(manager, REQUEST_FORMS[openKind(state, params.session)]);
    const given = { sessionId: session.sessionId, branch, requestId: params.request, answer, by };
    return answers.give({ ...given, ...(value !== undefined && { value }) });
  },
  'GET /v1/runs': async (call) => {
    const { limit = DEFAULT_RUNS, kind: wanted, cursor } = call.query;
    const items = [];
    for await (const { head, branch, newestId } of readHeads(call, (status) => status !== undefined, cursor)) {
      if (items.length === limit) return { items, next: newestId };
      const state = await call.states.load(head.id);
      const kind = runKindOf(state);
      if (kind !== undefined && (wanted === undefined || kind === wanted))
        items.push((await describeRun(call.manager, { head, branch, state, kind })).run);
    }
    return { items };
  },
  'GET /v1/sessions/{session}/run': async (call) => {
    const { manager, states, params, query } = call;
    const session = await openRefs(manager, params.session);
    const { branch = session.current } = query;
    const head = await manager.open(query.at ?? headOf(session, branch));
    const state = await states.load(head.id);
    const kind = openKind(state, params.session);
    const { run, open } = await describeRun(manager, { head, branch, state, kind });
    return {
      ...run,
      ...detailsOf(state, kind),
      steps: kind === 'workflow_run' ? listSteps(state as RunState, open) : [],
      rounds: kind === 'fleet' && query.rounds !== false ? await listRounds(call, head) : [],
      asks: await listAsks(manager, { head, branch, state, kind }),
      ...withoutUndefined({ active: call.teamRuns.find(session.sessionId) }),
    };
  },
  'POST /v1/sessions/{session}/run': startRun,
  'DELETE /v1/sessions/{session}/run': ({ teamRuns, params }) => teamRuns.pause(params.session),
} satisfies Partial<Handlers>;

/** Begins a run, if what it begins at is there: what else is wrong is told where the run is shown. */
async function startRun({ manager, teamRuns, params, body }: Call<'POST /v1/sessions/{session}/run'>) {
  const { sessionId } = await openRefs(manager, params.session);
  const { at, mode, branch, reason, prompt } = body;
  if (at === undefined && (mode ?? 'live') !== 'live')
    throw new InvalidInputError(`A ${mode} run is a new branch: say at which checkpoint it begins (at).`);
  if (at === undefined && (branch ?? reason) !== undefined)
    throw new InvalidInputError('branch and reason are for a new branch: say at which checkpoint it begins (at).');
  const origin = at === undefined ? {} : { at: await checkInside(manager, sessionId, at) };
  const wanted = withoutUndefined({ mode, branch, reason, prompt, rounds: body.rounds });
  return teamRuns.start({ sessionId, ...origin, ...wanted }, () => manager.engine.ports.now());
}

function openKind(state: unknown, sessionId: string): RunKind {
  const kind = runKindOf(state);
  if (kind !== undefined) return kind;
  throw new UnsupportedError(`Session "${sessionId}" is not the run of a workflow, a fleet or a group chat.`);
}

type Head = { readonly head: Checkpoint; readonly branch: string; readonly newestId: string };

/** The heads of current branches whose status fits, the last saved first; the cursor is where to begin. */
async function* readHeads(
  { manager, watch }: Pick<Call<'GET /v1/runs'>, 'manager' | 'watch'>,
  isWanted: (status: string | undefined) => boolean,
  cursor?: string,
): AsyncGenerator<Head> {
  const ranked = (await rankSessions(manager, false)).filter(({ newestId }) => !(cursor && newestId > cursor));
  for await (const session of watch(ranked.slice(0, MAX_LOOKED_AT), undefined)) {
    const found = await openHead(manager, session);
    if (found !== undefined && isWanted(found.head.status)) yield { ...found, newestId: session.newestId };
  }
}

async function openHead(manager: CheckpointManager, { id, heads }: RankedSession) {
  const branch = await manager.currentBranch(id);
  const headId = heads.get(branch);
  const head = headId === undefined ? undefined : await manager.get(headId).catch(() => undefined); // verify tells of damage
  return head === undefined ? undefined : { head, branch };
}

type Run = { readonly head: Checkpoint; readonly branch: string; readonly state: unknown; readonly kind: RunKind };

/** Whether all that a run asked is answered, and the run has not taken the answers yet. */
export async function isAnswered(manager: CheckpointManager, place: RunPlace): Promise<boolean> {
  const { open, unheard } = await findAsked(manager, place);
  return open.size === 0 && unheard > 0;
}

/** Which requests of a run are open, and of how many it does not have the answer yet. */
async function findAsked(manager: CheckpointManager, place: RunPlace) {
  const open = new Set((await findOpenRequests(manager, place)).map(({ id }) => id));
  const { state } = place;
  const kind = runKindOf(state);
  const isUnheard = ({ id }: AnyRequest) => kind && REQUEST_FORMS[kind].answerOf(state, id) === undefined;
  return { open, unheard: requestsIn(state).filter(isUnheard).length };
}

/** A run, and those of its requests that are open. */
async function describeRun(manager: CheckpointManager, { head, branch, state, kind }: Run) {
  const { workflow, fleet, chat } = fieldsOf(state);
  const title = { workflow_run: workflow, fleet: fieldsOf(fleet).task, group_chat: fieldsOf(chat).problem }[kind];
  const place = { sessionId: head.sessionId, branch };
  const { open, unheard } = await findAsked(manager, { ...place, state });
  const run = {
    ...place,
    kind,
    title: String(title),
    status: head.status ?? 'running',
    headId: head.id,
    sequence: head.sequence,
    savedAt: head.timestamp.toISOString(),
    requests: open.size,
    answered: unheard - open.size,
  };
  return { run, open };
}

function detailsOf(state: unknown, kind: RunKind) {
  const { input, output, fleet, chat } = fieldsOf(state);
  const end = kind === 'fleet' ? fieldsOf(fleet).end : fieldsOf(chat).end;
  const given = withoutUndefined({ input, output, end: end ?? undefined });
  return Object.fromEntries(Object.entries(given).map(([field, value]) => [field, toJsonForm(value)]));
}

async function listPending(
  { manager, states }: Pick<Call<'GET /v1/requests'>, 'manager' | 'states'>,
  head: Checkpoint,
  branch: string,
) {
  const state = await states.load(head.id);
  const kind = runKindOf(state);
  if (kind === undefined) return [];
  const open = await findOpenRequests(manager, { sessionId: head.sessionId, branch, state });
  return open.map((request) => toRequest({ head, branch, state, kind }, request));
}

/** What was asked in a run, with the answers there are: in the state, or left beside it. */
async function listAsks(manager: CheckpointManager, run: Run) {
  const { head, branch, state, kind } = run;
  const answers = new RequestAnswers(manager, REQUEST_FORMS[kind]);
  const place = { sessionId: head.sessionId, branch };
  return Promise.all(
    requestsIn(state).map(async (request) => {
      const answer = await answers.find(place, state, request.id);
      return { ...toRequest(run, request), ...(answer !== undefined && { answer }) };
    }),
  );
}

const KNOWN = new Set('id kind agent path message prompt options askedAtMs deadlineMs onTimeout answer'.split(' '));

function toRequest({ head, branch, kind: from }: Run, request: AnyRequest) {
  const { id, options, deadlineMs, onTimeout } = request;
  const { kind = 'approval', agent, path, message, prompt, askedAtMs } = fieldsOf(request);
  const more = Object.entries(request).filter(([field]) => !KNOWN.has(field));
  const needs = REQUEST_FORMS[from].needsOf?.(request) ?? {};
  const texts = { agent, path } as { readonly agent?: string; readonly path?: string };
  return {
    sessionId: head.sessionId,
    branch,
    id,
    from,
    kind: String(kind),
    message: String(message ?? prompt ?? ''),
    options,
    ...(Object.keys(needs).length > 0 && { needs: { ...needs } }),
    ...withoutUndefined({ ...texts, askedAtMs: askedAtMs as number | undefined, deadlineMs, onTimeout }),
    ...(more.length > 0 && { more: toJsonForm(Object.fromEntries(more)) }),
  };
}

type Step = {
  readonly path: string;
  readonly status: 'done' | 'skipped' | 'failed' | 'waiting' | 'answered' | 'trying' | 'timer';
  readonly [field: string]: unknown;
};

/** The steps of a workflow: those that ended, in order, then those under way. */
function listSteps({ ends, failures, timers, tries, requests }: RunState, open: ReadonlySet<string>): Step[] {
  const ended = new Set(ends.map(({ path }) => path));
  const waiting = Object.values(requests).filter(({ answer, path }) => answer === undefined && !ended.has(path));
  const steps: Step[] = [
    ...ends.map((end) => ({ ...end, output: toJsonForm(end.output) })),
    ...failures.map((failure) => ({ ...failure, status: 'failed' as const })),
    ...waiting.map(({ id, path }) => ({ path, status: open.has(id) ? ('waiting' as const) : ('answered' as const) })),
    ...Object.entries(timers).map(([path, dueAtMs]) => ({ path, status: 'timer' as const, dueAtMs })),
    ...Object.entries(tries).map(([path, { attempts, error }]) => ({
      path,
      status: 'trying' as const,
      attempts,
      ...withoutUndefined({ error }),
    })),
  ];
  return steps.filter(({ path }, at) => steps.findIndex((other) => other.path === path) === at);
}

/** The ledgers of a fleet, a row for each checkpoint that changed them, oldest first. */
async function listRounds({ states, manager, watch }: Call<'GET /v1/sessions/{session}/run'>, head: Checkpoint) {
  const rounds = [];
  for await (const checkpoint of watch(readLive(manager.engine.storage, head), undefined)) {
    const record = fieldsOf(await states.load(checkpoint.id)).fleet as FleetRecord | undefined;
    if (record !== undefined) rounds.push(toRound(checkpoint, record));
  }
  const key = ({ phase, round, taskLedger, progressLedger }: ReturnType<typeof toRound>) =>
    JSON.stringify([phase, round, taskLedger, progressLedger]);
  return rounds.reverse().filter((round, at, all) => at === 0 || key(round) !== key(all[at - 1] ?? round));
}

function toRound({ id, sequence, timestamp }: Checkpoint, record: FleetRecord) {
  const { phase, rounds, stalls, resets, nextSpeaker, taskLedger, progressLedger } = record;
  return {
    checkpointId: id,
    sequence,
    savedAt: timestamp.toISOString(),
    phase,
    round: rounds,
    stalls,
    resets,
    speaker: nextSpeaker ?? progressLedger?.next_speaker.answer ?? null, // named while it is asked, then only in the ledger
    taskLedger,
    progressLedger,
  };
}
