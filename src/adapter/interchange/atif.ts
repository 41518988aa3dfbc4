import { z } from 'zod';
import { digestText } from '../../core/tree/chunk.ts';
import { parseJson, parseShape, refuse } from './document.ts';
import type { ImportedMessage, ImportedRun, ImportedStep, MessagePart } from './imported-session.ts';

const FORMAT = 'ATIF trajectory';
const MAX_STEPS = 100_000;
const MAX_SUBAGENTS = 1_000;

const text = z.string();
const instant = z.iso.datetime({ offset: true, local: true });
const part = z.looseObject({ type: text, text: text.optional() });
const said = z.union([text, z.array(part)]);
const call = z.looseObject({ tool_call_id: text.min(1), function_name: text.min(1), arguments: z.looseObject({}) });
const result = z.looseObject({ source_call_id: text.nullish(), content: said.nullish() });
const observation = z.looseObject({ results: z.array(result) });
const step = z.looseObject({
  step_id: z.int().min(1),
  source: z.enum(['system', 'user', 'agent']),
  message: said,
  timestamp: instant.nullish(),
  tool_calls: z.array(call).nullish(),
  observation: observation.nullish(),
});
const trajectory = z.looseObject({
  schema_version: text,
  session_id: text.min(1).nullish(),
  trajectory_id: text.min(1).nullish(),
  agent: z.looseObject({ name: text.min(1), version: text }),
  steps: z.array(step).min(1).max(MAX_STEPS),
  subagent_trajectories: z
    .array(z.looseObject({ trajectory_id: text.min(1) }))
    .max(MAX_SUBAGENTS)
    .nullish(),
});

type Step = z.infer<typeof step>;
type Call = z.infer<typeof call>;
type Observation = z.infer<typeof observation>;
type Said = z.infer<typeof said>;

/** Reads a trajectory (ATIF 1.x), and those of its subagents. A step becomes a checkpoint; what has no place in a message stays beside it. */
export function readAtif(document: string): ImportedRun[] {
  const found = parseJson(document, FORMAT);
  return readTrajectory(found, [nameOf(found) ?? `file-${digestText(document).slice(0, 16)}`]);
}

function nameOf(found: unknown): string | undefined {
  const { session_id: run, trajectory_id: own } = (found ?? {}) as { session_id?: unknown; trajectory_id?: unknown };
  return [run, own].find((name) => typeof name === 'string' && name !== '') as string | undefined;
}

function readTrajectory(found: unknown, names: readonly string[]): ImportedRun[] {
  const version: unknown = (found as { schema_version?: unknown } | null)?.schema_version;
  if (typeof version !== 'string' || !/^ATIF-v1\.\d+$/.test(version))
    throw refuse(FORMAT, `its schema_version is ${JSON.stringify(version) ?? 'missing'}; ATIF-v1.0 to v1.x are known`);
  const { steps, subagent_trajectories: subagents, agent, ...about } = parseShape(trajectory, found, FORMAT);
  const gap = steps.findIndex(({ step_id: id }, at) => id !== at + 1);
  if (gap >= 0) throw refuse(FORMAT, `$.steps[${gap}].step_id is ${steps[gap]?.step_id}, but steps count from 1`);
  const ids = (subagents ?? []).map(({ trajectory_id: id }) => id);
  const twice = ids.find((id, at) => ids.indexOf(id) !== at);
  if (twice !== undefined) throw refuse(FORMAT, `two subagents have the trajectory_id ${JSON.stringify(twice)}`);
  const own: ImportedRun = {
    format: 'atif',
    names,
    agent: agent.name,
    state: { agent, trajectory: about },
    steps: steps.map((each) => toStep(each, agent.name)),
  };
  return [own, ...(subagents ?? []).flatMap((each) => readTrajectory(each, [...names, each.trajectory_id]))];
}

function toStep(
  { step_id: _stepId, source, message, timestamp, tool_calls, observation, ...extra }: Step,
  agent: string,
): ImportedStep {
  const calls = tool_calls ?? [];
  const parts = calls.map(({ tool_call_id: toolCallId, function_name: toolName, arguments: input, ...more }) =>
    withExtra({ type: 'tool-call', toolCallId, toolName, input }, more),
  );
  const content = typeof message === 'string' && parts.length === 0 ? message : [...toParts(message), ...parts];
  const who = source === 'agent' ? ({ role: 'assistant', name: agent } as const) : { role: source };
  const first = withExtra({ ...who, content, ...(timestamp != null && { timestamp }) }, extra);
  const results = observation == null ? [] : [toResults(observation, calls)];
  return { atMs: timestamp == null ? undefined : Date.parse(timestamp), messages: [first, ...results] };
}

function toResults({ results, ...extra }: Observation, calls: readonly Call[]): ImportedMessage {
  const content = results.map(({ source_call_id: id, content: output, ...more }) => {
    const toolName = calls.find(({ tool_call_id: known }) => known === id)?.function_name ?? 'environment';
    const part = { type: 'tool-result', toolName, output: toOutput(output), ...(id != null && { toolCallId: id }) };
    return withExtra(part, more);
  });
  return withExtra({ role: 'tool', content }, extra);
}

function toParts(message: Said): MessagePart[] {
  if (typeof message !== 'string') return message;
  return message === '' ? [] : [{ type: 'text', text: message }];
}

function toOutput(output: Said | null | undefined): MessagePart {
  return typeof output === 'string' ? { type: 'text', value: output } : { type: 'json', value: output ?? null };
}

/** The same with what has no place in it beside it. */
function withExtra<Part extends object>(part: Part, extra: object): Part {
  return Object.keys(extra).length === 0 ? part : { ...part, extra };
}
