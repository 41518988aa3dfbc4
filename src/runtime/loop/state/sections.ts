import { withoutUndefined } from '../../../core/defined.ts';
import { InvalidInputError } from '../../../core/errors.ts';
import { freezeState } from '../../../core/freeze.ts';
import { findLeftOutSecrets, type RestoreProblem } from '../../../manager/engine/restore-report.ts';
import type { AgentState } from './agent-state.ts';
import { errorText } from './error-text.ts';
import {
  EMPTY_SECTIONS,
  findSectionProblems,
  isObject,
  readSection,
  SECTION_NAMES,
  type SectionName,
  type SectionValues,
} from './section-forms.ts';

export { EMPTY_SECTIONS, SECTION_NAMES, type SectionName } from './section-forms.ts';

/** How one section is kept, where an agent keeps it itself. */
export type SectionHooks<Value> = {
  /** Answers what to save; gets what the loop has. Called at the end of a turn and at checkpoints between turns. */
  collect?(value: Value): Value;
  /** Takes over what was saved; may answer what could not be put back. */
  restore?(
    value: Value,
  ): undefined | readonly RestoreProblem[] | Promise<undefined | readonly RestoreProblem[]> | Promise<void>;
};

/** The hooks of an agent. */
export type Sections = { readonly [Name in SectionName]?: SectionHooks<AgentState[Name]> };

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
export function asStored(state: unknown): Partial<AgentState> {
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
