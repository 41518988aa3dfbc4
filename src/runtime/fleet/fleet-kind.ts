import { InvalidInputError } from '../../core/errors.ts';
import { digestText } from '../../core/tree/chunk.ts';
import { addTotals } from '../agent/agent-state.ts';
import { PERSON } from '../agent/chat-message.ts';
import { checkNoValue, findOwn, type GivenAnswer, REJECT } from '../run/request-answers.ts';
import type { TeamKind } from '../run/team.ts';
import { adoptAgents, reopenAgents } from '../run/team-facts.ts';
import { newWork } from '../run/work.ts';
import { Fleet } from './fleet.ts';
import type { FleetTrigger } from './fleet-loop.ts';
import { changeSettings } from './fleet-options.ts';
import {
  type FleetAnswer,
  type FleetEnd,
  type FleetEndReason,
  type FleetQuestion,
  type FleetRecord,
  type FleetRequest,
  type FleetSettings,
  type FleetState,
  findLimit,
  parseFleetState,
  wordRequest,
} from './fleet-state.ts';

export type FleetTypes = {
  readonly state: FleetState;
  readonly team: Fleet;
  readonly settings: FleetSettings;
  readonly trigger: FleetTrigger;
  readonly end: FleetEnd;
  readonly question: FleetQuestion;
  readonly request: FleetRequest;
  readonly answer: FleetAnswer;
};

/** How fleets are compared with their checkpoints, made of them, and run. */
export const FLEET: TeamKind<FleetTypes> = {
  noun: 'fleet',
  parse: parseFleetState,
  settingsOf: ({ fleet: { settings } }) => {
    const { callbacks: _, ...rest } = settings; // what the caller is told
    return rest;
  },
  adopt: adoptCode,
  findMissing: ({ fleet }, registry) => {
    const { orchestratorName: name, modelId } = fleet.settings;
    if (modelId === null || registry.hasModel(modelId)) return [];
    const text = `The model "${modelId}" of "${name}" is not registered.`;
    return [{ path: '$.fleet.settings.model', kind: 'missing', text }];
  },
  make: (agents, registry, { fleet: { settings } }) => new Fleet({ agents, registry, settings }),
  override: (fleet, changes) =>
    fleet.change(withSettings(fleet.record, changeSettings(fleet.record.settings, changes))),

  workOf: ({ record }) => nameMove(record),
  worksOf: (state) => {
    const { works = [], fleet } = state as FleetState;
    const { turn: former = [] } = fleet;
    return former.length === 0 ? works : [{ ...newWork(nameMove(fleet), 'former'), former }];
  },
  describe: ({ record }) => {
    const { rounds, stalls, resets, phase, end } = record;
    const place = { round: rounds, stalls, resets, phase, ...(end !== null && { endReason: end.reason }) };
    return { last: findLast(record), place };
  },
  situation: ({ record }) => ({ task: wordRequest(record), plan: record.taskLedger?.plan }),
  requested: ({ record: { task, followUps } }, trigger) => {
    if (trigger !== 'fleet_start' && trigger !== 'resumed') return [];
    const content = trigger === 'resumed' ? (followUps.at(-1) ?? task) : task;
    return [{ message: { name: PERSON, content }, speaker: undefined }];
  },
  isTaught: ({ speaker }) => speaker !== undefined,
  spoken: 'round_completed',

  requests: {
    parse: parseFleetState,
    requestsOf: ({ fleet }) => fleet.requests,
    answerOf: ({ fleet }, id) => findOwn(fleet.answers, id),
    withAnswer: (state, { id }, answer) => ({
      ...state,
      fleet: { ...state.fleet, ...withoutRequest(state.fleet, id, answer) },
    }),
    needsOf,
    check: checkWords,
  },
  announces: true,
  toRequest: (question, { record }, askedAtMs) => {
    const { approvalTimeoutMs, autoRejectOnTimeout } = record.settings.policy;
    const hasDeadline = approvalTimeoutMs !== null && question.kind !== 'reply';
    return {
      ...question,
      id: requestId(question, record),
      askedAtMs,
      ...(hasDeadline && { deadlineMs: askedAtMs + approvalTimeoutMs }),
      onTimeout: hasDeadline && autoRejectOnTimeout ? 'reject' : 'wait',
    };
  },
  toAnswer: (given) => given,
  asks: (fleet, request) => fleet.change(withRequest(fleet.record, request)),
  answered: (fleet, id, answer) => fleet.change(withoutRequest(fleet.record, id, answer)),
};

/** The move of each phase, counted so that no two are called the same. */
function nameMove({ phase, planCount, rounds, nextSpeaker }: FleetRecord): string {
  switch (phase) {
    case 'facts':
    case 'plan':
      return `plan ${planCount + 1}: ${phase}`;
    case 'review':
    case 'open':
      return `plan ${planCount}: ${phase}`;
    case 'progress':
      return `round ${rounds + 1}: ${phase}`;
    case 'speak':
      return `round ${rounds}: ${nextSpeaker}`;
    default:
      return `round ${rounds}, ${phase}`;
  }
}

function findLast({ end, messages, taskLedger, task, settings }: FleetRecord) {
  const byOrchestrator = end?.answer || (messages.length === 0 && taskLedger?.plan);
  if (byOrchestrator) return { name: settings.orchestratorName, content: byOrchestrator };
  return messages.at(-1) ?? { name: PERSON, content: task };
}

/** A fleet asks one thing at a time: an operation that still waits was asked for by an agent that now does something else. */
function withRequest({ requests, answers }: FleetRecord, request: FleetRequest) {
  const stale = Object.values(requests).filter(({ id, kind }) => kind === 'operation' && id !== request.id);
  const withdrawn = { answer: 'withdrawn', by: request.agent, atMs: request.askedAtMs, about: '' };
  const kept = Object.entries(requests).filter(([id]) => !stale.some((one) => one.id === id));
  return {
    requests: { ...Object.fromEntries(kept), [request.id]: request },
    answers: { ...answers, ...Object.fromEntries(stale.map(({ id }) => [id, withdrawn])) },
  };
}

function withoutRequest({ requests, answers }: FleetRecord, id: string, answer: FleetAnswer) {
  const { [id]: request, ...rest } = requests;
  const about = request?.kind === 'operation' && { about: contentOf(request) };
  return { requests: rest, answers: { ...answers, [id]: { ...answer, ...about } } };
}

/**
 * Whoever agreed to an operation agreed to what they were shown. If under its id another one was asked for, because a prompt, a model or the
 * rules changed in mid-turn, it gets an id of its own, and is asked about.
 */
function requestId(question: FleetQuestion, { requests, answers }: FleetRecord): string {
  const { id, kind } = question;
  if (kind !== 'operation') return id;
  const content = contentOf(question);
  const own = `${id}-${content.slice(0, ID_CHARS)}`;
  if (Object.hasOwn(requests, own) || Object.hasOwn(answers, own)) return own;
  const opened = findOwn(requests, id);
  const known = opened === undefined ? findOwn(answers, id)?.about : contentOf(opened);
  return known === undefined || known === content ? id : own;
}

/** The digest of what an operation is and does, whatever its call is called. */
function contentOf({ agent, message, operation, input }: FleetQuestion): string {
  const { callId: _, ...call } = Object(input) as { readonly callId?: unknown };
  return digestText(JSON.stringify([agent, message, operation, call]));
}

const ID_CHARS = 8;

/** Which answers to a plan need words besides, and for what. */
const NEEDS_TEXT: Readonly<Record<string, string>> = {
  edit: 'the plan as it should be',
  revise: 'what to do better',
};

/** Where words go that an answer does not carry. */
const WORDS_GO: Readonly<Record<FleetRequest['kind'], string>> = {
  plan_review: 'To change the plan, answer with "edit" or "revise".',
  operation: 'To have something else done, answer with "reject", and say what.',
  reply: 'Say everything in the answer.',
};

function needsOf({ kind }: FleetRequest): Readonly<Record<string, string>> {
  return kind === 'plan_review' ? NEEDS_TEXT : {};
}

function checkWords(request: FleetRequest, given: GivenAnswer): void {
  const { answer, value } = given;
  const needed = needsOf(request)[answer];
  if (needed === undefined) {
    const isReason = answer === REJECT && request.kind !== 'reply';
    if (!isReason) checkNoValue(request, given, WORDS_GO[request.kind]);
  } else if (typeof value !== 'string' || value.trim() === '')
    throw new InvalidInputError(`The answer "${answer}" to "${request.id}" needs a value: ${needed}, as a text.`, {
      details: { requestId: request.id },
    });
}

function adoptCode(state: FleetState, code: FleetState): FleetState {
  const { settings: was, messages } = state.fleet;
  const { settings } = code.fleet;
  const heard = { status: 'running', histories: { [settings.orchestratorName]: messages } } as const;
  const newcomer = messages.length > 0 ? heard : {};
  return withoutPassedLimit({
    ...state,
    ...adoptAgents(state, code, { newcomer, was: was.orchestratorName, is: settings.orchestratorName }),
    fleet: { ...state.fleet, ...withSettings(state.fleet, settings) },
  });
}

/** What ended at a limit that is higher now goes on up to it. */
function withoutPassedLimit(state: FleetState): FleetState {
  const { fleet, agents } = state;
  const reason = fleet.end?.reason ?? fleet.ending;
  const totals = Object.values(agents).reduce((sum, agent) => addTotals(sum, agent.totals), fleet.totals);
  const isReached = findLimit(fleet, totals) !== undefined;
  const isPassed = reason === 'max_resets' ? fleet.resets < fleet.resetLimit : LIMITS.some((limit) => limit === reason);
  if (!isPassed || isReached) return state;
  return { ...state, fleet: { ...fleet, end: null, ending: null, phase: 'progress' }, agents: reopenAgents(agents) };
}

const LIMITS: readonly FleetEndReason[] = ['max_rounds', 'token_budget', 'cost_budget'];

/** Other settings, and the counts at which a fleet ends by them. */
function withSettings({ settings: was, roundLimit, resetLimit }: FleetRecord, settings: FleetSettings) {
  return {
    settings,
    roundLimit: Math.max(0, roundLimit + settings.maxRoundCount - was.maxRoundCount),
    resetLimit: Math.max(0, resetLimit + settings.maxResetCount - was.maxResetCount),
  };
}
