import { z } from 'zod';
import { withoutUndefined } from '../../../core/defined.ts';
import { InvalidInputError } from '../../../core/errors.ts';
import { freezeState } from '../../../core/freeze.ts';
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

type Issue = { readonly path: string; readonly message: string };

/** A list of thousands that are all wrong is one mistake. */
const MAX_ISSUES = 10;

/** What is wrong with a field of a section, and where. */
function issuesOf(section: SectionName, field: string, value: unknown): readonly Issue[] {
  const issues = FORMS[section][field]?.shape.safeParse(value).error?.issues ?? [];
  return issues
    .slice(0, MAX_ISSUES)
    .map(({ path, message }) => ({ path: ['$', section, field, ...path.map(String)].join('.'), message }));
}

/** What is kept of a stored section, and what could not be. */
type SectionReading = { readonly value: unknown; readonly problems: readonly RestoreProblem[] };

/** Reads a stored section: a field that is wrong is repaired alone; what cannot be repaired begins empty. */
function readSection(section: SectionName, value: unknown): SectionReading {
  if (value === null && section === 'task') return { value, problems: [] };
  if (value === undefined) return beginEmpty(section, 'The checkpoint does not have it');
  if (!isObject(value)) return beginEmpty(section, `It cannot be read (expected an object, found ${nameOf(value)})`);
  const repaired: Record<string, unknown> = {};
  const problems: RestoreProblem[] = [];
  for (const [field, { repair }] of Object.entries(FORMS[section])) {
    const issues = issuesOf(section, field, value[field]);
    if (issues.length === 0) continue;
    if (repair === undefined)
      return { value: EMPTY_SECTIONS[section], problems: tell(issues, 'the section begins empty') };
    repaired[field] = repair(value[field]);
    problems.push(...tell(issues, sayRepaired(repaired[field])));
  }
  return { value: problems.length === 0 ? value : { ...value, ...repaired }, problems };
}

function beginEmpty(section: SectionName, problem: string): SectionReading {
  return {
    value: EMPTY_SECTIONS[section],
    problems: [{ path: `$.${section}`, problem: `${problem}; it begins empty.` }],
  };
}

function tell(issues: readonly Issue[], consequence: string): RestoreProblem[] {
  return issues.map(({ path, message }) => ({ path, problem: `It cannot be read (${message}); ${consequence}.` }));
}

function sayRepaired(value: unknown): string {
  return typeof value === 'object' && value !== null ? 'what fits is kept' : `it is taken as ${String(value)}`;
}

/** What is wrong with a section that is to be kept. */
function findSectionProblems(section: SectionName, value: unknown): RestoreProblem[] {
  if (value === null && section === 'task') return [];
  if (!isObject(value)) return [{ path: `$.${section}`, problem: `It must be an object; it is ${nameOf(value)}.` }];
  return Object.keys(FORMS[section]).flatMap((field) =>
    issuesOf(section, field, value[field]).map(({ path, message }) => ({ path, problem: message })),
  );
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
  onProblem: OnSectionProblem = () => undefined,
): State {
  const collected: Record<string, unknown> = {};
  for (const name of SECTION_NAMES) {
    const hooks = sections?.[name] as SectionHooks<unknown> | undefined;
    if (hooks?.collect === undefined || !(name in state)) continue;
    try {
      collected[name] = collectSection(hooks, name, state[name]);
    } catch (error) {
      onProblem(name, `It could not be collected: ${errorText(error).message}`);
    }
  }
  return { ...state, ...collected };
}

function collectSection(hooks: SectionHooks<unknown>, name: SectionName, value: unknown): unknown {
  const collected = hooks.collect?.(value);
  // Nobody waits for it; an error of it must not be one of the process.
  if (collected instanceof Promise) collected.catch(() => undefined);
  throwIfAny(findSectionProblems(name, collected), 'What `collect` answered cannot be kept');
  freezeState(collected);
  return collected;
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

/** Refuses sections that could not be read again later; those that are the same as before are not looked at. */
export function checkSections(given: Partial<SectionValues>, before: Partial<SectionValues> = {}): void {
  const changed = SECTION_NAMES.filter((name) => name in given && (!(name in before) || given[name] !== before[name]));
  throwIfAny(
    changed.flatMap((name) => findSectionProblems(name, given[name])),
    'The state cannot be kept like this',
  );
}

function throwIfAny(problems: readonly RestoreProblem[], sentence: string): void {
  if (problems.length === 0) return;
  const found = problems.map(({ path, problem }) => `${path}: ${problem}`).join('; ');
  throw new InvalidInputError(`${sentence}: ${found}`, { details: { problems } });
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
  const problems = new Map<SectionName, readonly RestoreProblem[]>();
  const kept: Record<string, unknown> = { ...EMPTY_SECTIONS };
  for (const name of SECTION_NAMES) {
    const reading = readSection(name, stored[name]);
    kept[name] = reading.value;
    problems.set(name, reading.problems);
  }
  return { kept: kept as SectionValues, problems };
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

async function restoreSection(
  sections: Sections | undefined,
  section: SectionName,
  kept: SectionValues,
): Promise<readonly RestoreProblem[]> {
  const hooks = sections?.[section] as SectionHooks<unknown> | undefined;
  try {
    const answer: unknown = await hooks?.restore?.(kept[section]);
    return (answer ?? null) === null ? [] : readAnswer(section, answer);
  } catch (error) {
    return [{ path: `$.${section}`, problem: `The agent could not take it over: ${errorText(error).message}` }];
  }
}

/** The problems that an agent answered. What is none of these is one itself: nobody knows what it means. */
function readAnswer(section: SectionName, answer: unknown): readonly RestoreProblem[] {
  const isList = Array.isArray(answer) && answer.every(isProblem);
  if (isList) return answer;
  return [{ path: `$.${section}`, problem: 'Its `restore` answered something else than a list of problems.' }];
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

function nameOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return 'a list';
  return value instanceof Promise ? 'a promise' : typeof value;
}

/** Whether a value has fields to be read. */
function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Promise);
}
