import { formatSuggestion, suggest } from '../../../core/suggestion.ts';
import type { StandardAgent } from '../../agent/standard-agent.ts';
import { type Problem, problemsError } from '../../config/problem.ts';
import type { NamedAction, Workflow } from './workflow.ts';

/** What a step's code gets besides its input. */
export type StepContext = {
  readonly sessionId: string;
  readonly workflow: string;
  /** `fetch`, `review[2]`, `pay/charge`. */
  readonly step: string;
  /** 1 at first. Retries count, and so does what a crash cut off. */
  readonly attempt: number;
  /** The same for every attempt: give it to the outside system, so that it can tell a repetition from a second request. */
  readonly idempotencyKey: string;
  /** Aborts when the step's time is up, the run is stopped, or another process took it over. */
  readonly signal: AbortSignal;
};

/** Code behind a `function` step. What it gets is frozen; what it returns must be data that can be saved. */
export type StepFunction = (input: never, context: StepContext) => unknown;

/** Whoever replies to a prompt. */
export interface WorkflowAgent {
  reply(prompt: string, context: StepContext): Promise<{ readonly text: string } | string>;
}

/** The code that definitions refer to by name. */
export type WorkflowRegistry = {
  readonly functions?: { readonly [name: string]: StepFunction };
  /** A StandardAgent begins each step anew: what it is to know stands in the prompt. */
  readonly agents?: { readonly [name: string]: WorkflowAgent | StandardAgent };
  /** Sub-workflows, and workflows that are run or recovered by name. */
  readonly workflows?: { readonly [name: string]: Workflow };
};

const PLACES = { function: 'functions', agent: 'agents', workflow: 'workflows' } as const;

/** Looks for every name of a workflow and its sub-workflows; throws an InvalidInputError with all that are missing. */
export function checkRegistry(workflow: Workflow, registry: WorkflowRegistry): void {
  const problems = findMissing(workflow, registry, { prefix: '', workflows: [] });
  if (problems.length > 0) throw problemsError(`Workflow "${workflow.name}"`, problems);
}

type Above = { readonly prefix: string; readonly workflows: readonly Workflow[] };

function findMissing(workflow: Workflow, registry: WorkflowRegistry, above: Above): Problem[] {
  return workflow.steps.flatMap(({ id, action }) => {
    if (!('name' in action)) return [];
    const path = `${above.prefix}${id}`;
    const known: object = registry[PLACES[action.kind]] ?? {};
    if (!Object.hasOwn(known, action.name)) return [missing(path, action, Object.keys(known))];
    const sub = action.kind === 'workflow' ? registry.workflows?.[action.name] : undefined;
    if (sub === undefined) return [];
    const workflows = [...above.workflows, workflow];
    if (workflows.includes(sub)) return [{ path, message: `the workflow "${sub.name}" is inside itself; use repeat.` }];
    return findMissing(sub, registry, { prefix: `${path}/`, workflows });
  });
}

function missing(path: string, { kind, name }: NamedAction, known: readonly string[]): Problem {
  const suggestion = suggest(name, known);
  const message = `the registry has no ${kind} "${name}".${formatSuggestion(suggestion)}`;
  return { path, message, ...(suggestion !== undefined && { suggestion }) };
}
