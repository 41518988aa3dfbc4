import type { Action, Workflow, WorkflowStep } from './workflow.ts';

/** Draws a workflow as a Mermaid flowchart: an arrow for every need, dotted ones for jumps after a failure. */
export function toMermaid({ steps, order }: Workflow): string {
  const place = new Map(order.map((id, at) => [id, at]));
  const written = steps.toSorted((a, b) => (place.get(a.id) ?? 0) - (place.get(b.id) ?? 0));
  const names = new Map(written.map(({ id }, at) => [id, `s${at}`]));
  const nameOf = (id: string): string => names.get(id) ?? id;
  const lines = written.flatMap((step) => [
    `  ${nameOf(step.id)}${shape(step)}`,
    ...step.needs.map(
      (need) => `  ${nameOf(need)} ${step.when.length > 0 ? '-- when --> ' : '--> '}${nameOf(step.id)}`,
    ),
    ...(step.onError.kind === 'goto' ? [`  ${nameOf(step.id)} -. on error .-> ${nameOf(step.onError.target)}`] : []),
  ]);
  return ['flowchart TD', ...lines, ''].join('\n');
}

const SHAPES: Readonly<Record<Action['kind'], readonly [string, string]>> = {
  function: ['["', '"]'],
  agent: ['(["', '"])'],
  workflow: ['[["', '"]]'],
  approval: ['{{"', '"}}'],
  wait: ['(("', '"))'],
  wait_until: ['(("', '"))'],
  join: ['>"', '"]'],
};

function shape({ title, action, loop }: WorkflowStep): string {
  const [open, close] = SHAPES[action.kind];
  const does = 'name' in action ? `${action.kind} ${action.name}` : action.kind.replace('_', ' ');
  const again = loop === undefined ? '' : loop.kind === 'repeat' ? ` ↻ ${loop.limit}` : ' for each';
  return `${open}${escapeLabel(title)}<br/>${escapeLabel(does)}${again}${close}`;
}

function escapeLabel(text: string): string {
  return text.replace(/[&"<>#]/g, (sign) => `#${sign.charCodeAt(0)};`);
}
