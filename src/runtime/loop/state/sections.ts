import { z } from 'zod';
import { withoutUndefined } from '../../../core/defined.ts';
import { InvalidInputError } from '../../../core/errors.ts';
import { freezeState } from '../../../core/freeze.ts';
import { describeValue, isRecord } from '../../../core/options.ts';
import { findLeftOutSecrets, type RestoreProblem } from '../../../manager/engine/loading.ts';
import type { LoopAgentState } from './agent-state.ts';
import { errorText } from './error-text.ts';
import { EMPTY_MAILBOX } from './mailbox.ts';

/** The parts of an agent's state that can be collected and restored on their own. */
export type SectionName = 'task' | 'mailbox' | 'context' | 'memory';

/** The sections of a state. */
type SectionValues = Pick<LoopAgentState, SectionName>;

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

/** What is wrong with a section, where, and what becomes of that when a stored one is read. */
type Issue = { readonly path: string; readonly message: string; readonly remedy: string };

/** A list of thousands that are all wrong is one mistake. */
const MAX_ISSUES = 10;

/** Looks at a section: a field that is wrong is repaired alone; with one that cannot be repaired the section begins empty. */
function examine(section: SectionName, value: unknown): { readonly value: unknown; readonly issues: readonly Issue[] } {
  if (value === null && section === 'task') return { value, issues: [] };
  const empty = EMPTY_SECTIONS[section];
  const remedy = 'the section begins empty';
  const message = `must be an object; found ${describeValue(value)}`;
  if (!isObject(value)) return { value: empty, issues: [{ path: `$.${section}`, message, remedy }] };
  const repaired: Record<string, unknown> = { ...value };
  const fields = Object.entries(FORMS[section]).map(([field, { shape, repair }]) => {
    const found = shape.safeParse(value[field]).error?.issues.slice(0, MAX_ISSUES) ?? [];
    if (found.length > 0) repaired[field] = repair?.(value[field]);
    return { field, found, isLost: found.length > 0 && repair === undefined };
  });
  const isLost = fields.some((field) => field.isLost);
  const issues = fields.flatMap(({ field, found }) =>
    found.map(({ path, message: problem }) => ({
      path: ['$', section, field, ...path.map(String)].join('.'),
      message: problem,
      remedy: isLost ? remedy : describeRepair(repaired[field]),
    })),
  );
  if (isLost) return { value: empty, issues };
  return { value: issues.length === 0 ? value : repaired, issues };
}

function describeRepair(value: unknown): string {
  return typeof value === 'object' && value !== null ? 'what fits is kept' : `it is taken as ${String(value)}`;
}

/** Refuses sections that could not be read again later. */
function throwIfWrong(sections: readonly (readonly [SectionName, unknown])[], sentence: string): void {
  const problems = sections.flatMap(([name, value]) =>
    examine(name, value).issues.map(({ path, message }) => ({ path, problem: message })),
  );
  if (problems.length === 0) return;
  const found = problems.map(({ path, problem }) => `${path}: ${problem}`).join('; ');
  throw new InvalidInputError(`${sentence}: ${found}`, { details: { problems } });
}

/** Refuses sections that could not be read again later; those that are the same as before are not looked at. */
export function checkSections(given: Partial<SectionValues>, before: Partial<SectionValues> = {}): void {
  const changed = SECTION_NAMES.filter((name) => name in given && (!(name in before) || given[name] !== before[name]));
  throwIfWrong(
    changed.map((name) => [name, given[name]]),
    'The state cannot be kept like this',
  );
}

/** What a stored state has; one that is no object has nothing. */
export function asStored(state: unknown): Partial<LoopAgentState> {
  return isObject(state) ? state : {};
}

/** Checks each section of a stored state; what is absent or unreadable begins empty, and the problems say so. */
export function readSections(state: unknown): {
  readonly kept: SectionValues;
  readonly problems: ReadonlyMap<SectionName, readonly RestoreProblem[]>;
} {
  const stored = asStored(state);
  const readings = SECTION_NAMES.map((name) => [name, examine(name, stored[name])] as const);
  const problemOf = ({ path, message, remedy }: Issue) => ({
    path,
    problem: `It cannot be read (${message}); ${remedy}.`,
  });
  return {
    kept: Object.fromEntries(readings.map(([name, { value }]) => [name, value])) as SectionValues,
    problems: new Map(readings.map(([name, { issues }]) => [name, issues.map(problemOf)])),
  };
}

/** Sections that were given in part, with the rest of them empty. */
export function completeSections(
  given: {
    readonly [Name in keyof SectionValues]?: object | null;
  },
): Partial<SectionValues> {
  const whole = Object.entries(given).map(([name, value]) => {
    const isPartial = (name === 'context' || name === 'memory') && isObject(value);
    return [name, isPartial ? { ...EMPTY_SECTIONS[name], ...withoutUndefined(value) } : value];
  });
  return Object.fromEntries(whole) as Partial<SectionValues>;
}

/** How one section is kept, where an agent keeps it itself. */
export type SectionHooks<Value> = {
  /** Returns what to save; gets what the loop has. Called at the end of a turn and at checkpoints between turns. */
  collect?(value: Value): Value;
  /** Takes over what was saved; may answer what could not be put back. */
  restore?(
    value: Value,
  ): undefined | readonly RestoreProblem[] | Promise<undefined | readonly RestoreProblem[]> | Promise<void>;
};

/** The hooks of an agent. */
export type Sections = { readonly [Name in SectionName]?: SectionHooks<LoopAgentState[Name]> };

/** What became of one section. */
export type SectionReport = {
  readonly section: SectionName;
  readonly status: 'complete' | 'partial';
  readonly problems: readonly RestoreProblem[];
};

/** What became of all of them: `complete` only if each is. */
export type SectionsReport = { readonly status: 'complete' | 'partial'; readonly sections: readonly SectionReport[] };

/** Hears of a section that could not be collected. */
export type OnSectionProblem = (section: SectionName, problem: string) => void;

/** Asks the agent for the sections it keeps itself. Of one that it does not answer, what the loop has is kept. */
export function collectSections<State extends Partial<SectionValues>>(
  sections: Sections | undefined,
  state: State,
  onProblem: OnSectionProblem,
): State {
  const collected: Record<string, unknown> = { ...state };
  for (const name of SECTION_NAMES) {
    const hooks = sections?.[name] as SectionHooks<unknown> | undefined;
    if (hooks?.collect === undefined || !(name in state)) continue;
    try {
      const value = hooks.collect(state[name]);
      // Nobody waits for it; an error of it must not be one of the process.
      if (value instanceof Promise) value.catch(() => undefined);
      throwIfWrong([[name, value]], 'What `collect` answered cannot be kept');
      collected[name] = freezeState(value);
    } catch (error) {
      onProblem(name, `It could not be collected: ${errorText(error).message}`);
    }
  }
  return collected as State;
}

/** Hands each section to the agent and puts the report together. What goes wrong with one does not stop the others. */
export async function restoreSections(
  sections: Sections | undefined,
  kept: SectionValues,
  problems: ReadonlyMap<SectionName, readonly RestoreProblem[]> = new Map(),
): Promise<SectionsReport> {
  const reports: SectionReport[] = [];
  for (const section of SECTION_NAMES) {
    const unread = [...(problems.get(section) ?? []), ...secretsOf(section, kept)];
    const found = [...unread, ...(await restoreSection(sections, section, kept))];
    reports.push({ section, status: found.length === 0 ? 'complete' : 'partial', problems: found });
  }
  const isComplete = reports.every(({ status }) => status === 'complete');
  return { status: isComplete ? 'complete' : 'partial', sections: reports };
}

/** The problems that an agent answered. What is none of these is one itself: nobody knows what it means. */
async function restoreSection(
  sections: Sections | undefined,
  section: SectionName,
  kept: SectionValues,
): Promise<readonly RestoreProblem[]> {
  const hooks = sections?.[section] as SectionHooks<unknown> | undefined;
  const path = `$.${section}`;
  try {
    const answer: unknown = (await hooks?.restore?.(kept[section])) ?? [];
    if (Array.isArray(answer) && answer.every(isProblem)) return answer;
    return [{ path, problem: 'Its `restore` answered something else than a list of problems.' }];
  } catch (error) {
    return [{ path, problem: `The agent could not take it over: ${errorText(error).message}` }];
  }
}

function isProblem(value: unknown): value is RestoreProblem {
  return isObject(value) && typeof value.path === 'string' && typeof value.problem === 'string';
}

/** The places of left-out secrets that somebody can set again. What was done for a message that is set aside is none. */
export function secretsOf(section: SectionName, kept: SectionValues): RestoreProblem[] {
  const { pending, setAside } = kept.mailbox;
  const messages = { pending, setAside: setAside.map(({ message }) => ({ message })) };
  const value = section === 'mailbox' ? messages : kept[section];
  return findLeftOutSecrets(value).map(({ path, problem }) => ({ path: `$.${section}${path.slice(1)}`, problem }));
}

/** Whether a value has fields to be read. */
function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return isRecord(value) && !(value instanceof Promise);
}
