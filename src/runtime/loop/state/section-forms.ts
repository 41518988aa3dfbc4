import { z } from 'zod';
import type { RestoreProblem } from '../../../manager/engine/restore-report.ts';
import type { AgentState } from './agent-state.ts';
import { EMPTY_MAILBOX } from './mailbox.ts';

/** The parts of an agent's state that can be collected and restored on their own. */
export type SectionName = 'task' | 'mailbox' | 'context' | 'memory';

/** The sections of a state. */
export type SectionValues = Pick<AgentState, SectionName>;

export const SECTION_NAMES: readonly SectionName[] = ['task', 'mailbox', 'context', 'memory'];

/** What an agent begins with. */
export const EMPTY_SECTIONS: SectionValues = {
  task: null,
  mailbox: EMPTY_MAILBOX,
  context: { goals: [], constraints: [], decisions: [], notes: [] },
  memory: { shortTerm: {}, session: {} },
};

/** What a field must look like. One without `repair` is what its section is about: without it the section means nothing. */
type FieldForm = { readonly shape: z.ZodType; readonly repair?: (value: unknown) => unknown };

/** Sums of fractions end a little beside 1; that is no mistake of an agent. */
const ROUNDING = 1e-9;
const FRACTION = 'must be a number from 0 to 1';

/** What each section must look like; more than that is the agent's own. */
const FORMS: { readonly [Name in SectionName]: { readonly [field: string]: FieldForm } } = {
  task: {
    id: { shape: z.string() },
    status: { shape: z.enum(['active', 'waiting', 'done', 'failed']) },
    progress: {
      shape: z
        .number()
        .min(-ROUNDING, FRACTION)
        .max(1 + ROUNDING, FRACTION),
      repair: clampProgress,
    },
  },
  mailbox: {
    pending: listOf(z.looseObject({ id: z.string(), failures: z.number() }), repairPending),
    lastProcessed: {
      shape: z.looseObject({ id: z.string(), atMs: z.number() }).nullable(),
      repair: () => null,
    },
    processedCount: { shape: z.number(), repair: () => 0 },
    recentIds: listOf(z.string()),
    recentDigests: { shape: z.array(z.tuple([z.string(), z.string()])).optional(), repair: () => [] },
    setAside: listOf(z.looseObject({ message: z.looseObject({ id: z.string() }) })),
  },
  context: {
    goals: listOf(z.string(), repairText),
    constraints: listOf(z.string(), repairText),
    decisions: listOf(z.unknown()),
    notes: listOf(z.looseObject({ text: z.string() })),
  },
  memory: {
    shortTerm: { shape: z.record(z.string(), z.unknown()), repair: () => ({}) },
    session: { shape: z.record(z.string(), z.unknown()), repair: () => ({}) },
  },
};

function clampProgress(value: unknown): number {
  return typeof value === 'number' && !Number.isNaN(value) ? Math.min(1, Math.max(0, value)) : 0;
}

/** A list of entries; those that do not fit, and cannot be made to, are left out. */
function listOf(entry: z.ZodType, repairEntry: (value: unknown) => unknown = () => undefined): FieldForm {
  const keep = (value: unknown): unknown[] => {
    const kept = entry.safeParse(value).success ? value : repairEntry(value);
    return kept === undefined ? [] : [kept];
  };
  return { shape: z.array(entry), repair: (value) => (Array.isArray(value) ? value.flatMap(keep) : []) };
}

function repairText(value: unknown): string | undefined {
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined;
}

function repairPending(value: unknown): unknown {
  const isNamed = isObject(value) && typeof value.id === 'string';
  return isNamed ? { ...value, failures: 0 } : undefined;
}

/** What is kept of a stored section, and what could not be. */
type SectionReading = { readonly value: unknown; readonly problems: readonly RestoreProblem[] };

/** Reads a stored section: a field that is wrong is repaired alone; what cannot be repaired begins empty. */
export function readSection(section: SectionName, value: unknown): SectionReading {
  const empty = EMPTY_SECTIONS[section];
  if (value === null && section === 'task') return { value, problems: [] };
  if (value === undefined) return beginEmpty(section, 'The checkpoint does not have it');
  if (!isObject(value)) return beginEmpty(section, `It cannot be read (expected an object, found ${nameOf(value)})`);
  const repaired: Record<string, unknown> = {};
  const problems: RestoreProblem[] = [];
  for (const [field, { shape, repair }] of Object.entries(FORMS[section])) {
    const issues = issuesOf(shape, value[field]);
    if (issues.length === 0) continue;
    const paths = issues.map(({ path }) => formatPath(section, [field, ...path]));
    if (repair === undefined) return { value: empty, problems: tell(issues, paths, 'the section begins empty') };
    repaired[field] = repair(value[field]);
    problems.push(...tell(issues, paths, sayRepaired(repaired[field])));
  }
  return { value: problems.length === 0 ? value : { ...value, ...repaired }, problems };
}

function beginEmpty(section: SectionName, problem: string): SectionReading {
  return {
    value: EMPTY_SECTIONS[section],
    problems: [{ path: `$.${section}`, problem: `${problem}; it begins empty.` }],
  };
}

type Issue = { readonly path: readonly PropertyKey[]; readonly message: string };

/** A list of thousands that are all wrong is one mistake. */
const MAX_ISSUES = 10;

function issuesOf(shape: z.ZodType, value: unknown): readonly Issue[] {
  return shape.safeParse(value).error?.issues.slice(0, MAX_ISSUES) ?? [];
}

function tell(issues: readonly Issue[], paths: readonly string[], consequence: string): RestoreProblem[] {
  return issues.map(({ message }, at) => ({
    path: paths[at] ?? '$',
    problem: `It cannot be read (${message}); ${consequence}.`,
  }));
}

function sayRepaired(value: unknown): string {
  return typeof value === 'object' && value !== null ? 'what fits is kept' : `it is taken as ${String(value)}`;
}

/** What is wrong with a section that is to be kept. */
export function findSectionProblems(section: SectionName, value: unknown): RestoreProblem[] {
  if (value === null && section === 'task') return [];
  if (!isObject(value)) return [{ path: `$.${section}`, problem: `It must be an object; it is ${nameOf(value)}.` }];
  return Object.entries(FORMS[section]).flatMap(([field, { shape }]) =>
    issuesOf(shape, value[field]).map(({ path, message }) => ({
      path: formatPath(section, [field, ...path]),
      problem: message,
    })),
  );
}

function formatPath(section: SectionName, path: readonly PropertyKey[]): string {
  return [`$.${section}`, ...path.map(String)].join('.');
}

function nameOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return 'a list';
  return value instanceof Promise ? 'a promise' : typeof value;
}

/** Whether a value has fields to be read. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Promise);
}
