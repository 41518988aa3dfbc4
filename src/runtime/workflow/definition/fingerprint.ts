import { digestText } from '../../../core/tree/chunk.ts';
import type { Workflow, WorkflowStep } from './workflow.ts';

/** What a workflow is: a digest of all of it, and one for each step, those of sub-workflows included. */
export type Fingerprint = {
  readonly digest: string;
  readonly steps: { readonly [path: string]: string };
};

const DIGEST_CHARS = 16;

/** Digests a workflow. Titles, descriptions, retries, time limits and when to save are left out: results do not depend on them. */
export function fingerprintOf(workflow: Workflow, workflows: { readonly [name: string]: Workflow } = {}): Fingerprint {
  const steps: Record<string, string> = {};
  const add = ({ steps: inner, order }: Workflow, prefix: string): void => {
    const byId = new Map(inner.map((step) => [step.id, step]));
    for (const id of order) {
      const step = byId.get(id);
      if (step === undefined) continue;
      steps[`${prefix}${id}`] = digestOf(step);
      const { action } = step;
      const sub = action.kind === 'workflow' ? workflows[action.name] : undefined;
      if (sub !== undefined) add(sub, `${prefix}${id}/`);
    }
  };
  add(workflow, '');
  const lines = Object.entries(steps).map(([path, digest]) => `${path} ${digest}`);
  return { digest: shorten([workflow.name, ...lines].join('\n')), steps };
}

/** The step behind a path: turns of loops are all the same step. */
export function stepOf(path: string): string {
  return path.replace(/\[\d+\]/g, '');
}

/** The first step that differs, in the order of the new definition, and then what is gone. */
export function firstChange(before: Fingerprint, after: Fingerprint): string | undefined {
  const changed = Object.keys(after.steps).find((path) => before.steps[path] !== after.steps[path]);
  return changed ?? Object.keys(before.steps).find((path) => after.steps[path] === undefined);
}

/** A definition is asked for its fingerprint at every run. */
const known = new WeakMap<WorkflowStep, string>();

function digestOf(step: WorkflowStep): string {
  const digest = known.get(step) ?? shorten(JSON.stringify(step.meaning, sortKeys));
  known.set(step, digest);
  return digest;
}

function shorten(text: string): string {
  return digestText(text).slice(0, DIGEST_CHARS);
}

/** The order in which keys were written says nothing, except in the list of steps. */
function sortKeys(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
