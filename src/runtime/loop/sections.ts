import { z } from 'zod';
import { freezeState } from '../../manager/freeze.ts';
import { findLeftOutSecrets, type RestoreProblem } from '../../manager/restore-report.ts';
import type { AgentState } from './agent-state.ts';
import { errorText } from './error-text.ts';
import { EMPTY_MAILBOX } from './mailbox.ts';

/** The parts of an agent's state that can be collected and restored on their own. */
export type SectionName = 'task' | 'mailbox' | 'context' | 'memory';

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

export const SECTION_NAMES: readonly SectionName[] = ['task', 'mailbox', 'context', 'memory'];

type Kept = Pick<AgentState, SectionName>;

/** What each section must look like; more than that is the agent's own. */
const SHAPES: { readonly [Name in SectionName]: z.ZodType } = {
  task: z
    .looseObject({
      id: z.string(),
      status: z.enum(['active', 'waiting', 'done', 'failed']),
      progress: z.number().min(0).max(1),
    })
    .nullable(),
  mailbox: z.looseObject({
    pending: z.array(z.looseObject({ id: z.string(), failures: z.number() })),
    lastProcessed: z.looseObject({ id: z.string(), atMs: z.number() }).nullable(),
    processedCount: z.number(),
    recentIds: z.array(z.string()),
    setAside: z.array(z.looseObject({ message: z.looseObject({ id: z.string() }) })),
  }),
  context: z.looseObject({
    goals: z.array(z.string()),
    constraints: z.array(z.string()),
    decisions: z.array(z.unknown()),
    notes: z.array(z.looseObject({ text: z.string() })),
  }),
  memory: z.looseObject({ shortTerm: z.record(z.string(), z.unknown()), session: z.record(z.string(), z.unknown()) }),
};

/** What an agent begins with. */
export const EMPTY_SECTIONS: Kept = {
  task: null,
  mailbox: EMPTY_MAILBOX,
  context: { goals: [], constraints: [], decisions: [], notes: [] },
  memory: { shortTerm: {}, session: {} },
};

/** Asks the agent for the sections it keeps itself. */
export function collectSections<State extends Partial<Kept>>(sections: Sections | undefined, state: State): State {
  const collected: Record<string, unknown> = {};
  for (const name of SECTION_NAMES) {
    const collect = sections?.[name]?.collect as ((value: unknown) => unknown) | undefined;
    if (collect !== undefined && name in state) collected[name] = frozen(collect(state[name]));
  }
  return { ...state, ...collected };
}

function frozen(value: unknown): unknown {
  freezeState(value);
  return value;
}

/** Checks each section of a stored state; one that is absent or unreadable begins empty, and the problems say so. */
export function readSections(stored: Partial<Record<SectionName, unknown>>): {
  readonly kept: Kept;
  readonly problems: ReadonlyMap<SectionName, readonly RestoreProblem[]>;
} {
  const problems = new Map<SectionName, readonly RestoreProblem[]>();
  const kept: Record<string, unknown> = { ...EMPTY_SECTIONS };
  for (const name of SECTION_NAMES) {
    const problem = findProblem(name, stored[name]);
    if (problem === undefined) kept[name] = stored[name];
    problems.set(name, problem === undefined ? secretsOf(name, stored[name]) : [problem]);
  }
  return { kept: kept as Kept, problems };
}

/** Hands each section to the agent and puts the report together. What goes wrong with one does not stop the others. */
export async function restoreSections(
  sections: Sections | undefined,
  kept: Kept,
  problems: ReadonlyMap<SectionName, readonly RestoreProblem[]> = new Map(),
): Promise<SectionsReport> {
  const reports: SectionReport[] = [];
  for (const section of SECTION_NAMES) {
    const found = [...(problems.get(section) ?? []), ...(await restoreSection(sections, section, kept))];
    reports.push({ section, status: found.length === 0 ? 'complete' : 'partial', problems: found });
  }
  const isComplete = reports.every(({ status }) => status === 'complete');
  return { status: isComplete ? 'complete' : 'partial', sections: reports };
}

async function restoreSection(
  sections: Sections | undefined,
  section: SectionName,
  kept: Kept,
): Promise<readonly RestoreProblem[]> {
  const restore = sections?.[section]?.restore as SectionHooks<unknown>['restore'];
  try {
    return (await restore?.(kept[section])) ?? [];
  } catch (error) {
    return [{ path: `$.${section}`, problem: `The agent could not take it over: ${errorText(error).message}` }];
  }
}

function findProblem(section: SectionName, value: unknown): RestoreProblem | undefined {
  if (value === undefined)
    return { path: `$.${section}`, problem: 'The checkpoint does not have it; it begins empty.' };
  const { error } = SHAPES[section].safeParse(value);
  const issue = error?.issues[0];
  if (issue === undefined) return undefined;
  const path = [`$.${section}`, ...issue.path.map(String)].join('.');
  return { path, problem: `It cannot be read (${issue.message}); the section begins empty.` };
}

function secretsOf(section: SectionName, value: unknown): RestoreProblem[] {
  return findLeftOutSecrets(value).map(({ path, problem }) => ({ path: `$.${section}${path.slice(1)}`, problem }));
}
