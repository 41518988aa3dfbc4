import { sessionsBelow } from '../../adapter/session-name.ts';
import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import { isRecord } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { type Fields, fieldsOf, listMessages } from '../../manager/revision/transcript.ts';
import { formatValue, parseJsonOrText, toJsonForm } from '../../view/json-form.ts';
import { type MessageCall, type MessageResult, readParts } from '../../view/messages.ts';

const VERSION = 'ATIF-v1.7';

type Step = Fields & {
  readonly source: 'system' | 'user' | 'agent';
  readonly tool_calls?: readonly { readonly tool_call_id: string }[];
  observation?: { readonly results: Fields[] };
};

const SOURCES: { readonly [role: string]: Step['source'] } = {
  system: 'system',
  developer: 'system',
  user: 'user',
  human: 'user',
};

/** The messages of a checkpoint as a trajectory in the Agent Trajectory Interchange Format; sessions below its own are its subagents. */
export async function exportAtif(manager: CheckpointManager, head: Checkpoint): Promise<Fields> {
  const below = await sessionsBelow(manager.engine.storage, `${head.sessionId}/`);
  const subagents: Fields[] = [];
  for (const sessionId of below) {
    const latest = await manager.latest({ sessionId, branch: await manager.currentBranch(sessionId) });
    const state = latest === undefined ? undefined : await manager.load(latest.id);
    if (latest === undefined || (listMessages(state) ?? []).length === 0) continue;
    subagents.push({ ...toTrajectory(latest, state), trajectory_id: sessionId.slice(head.sessionId.length + 1) });
  }
  const own = toTrajectory(head, await manager.load(head.id));
  return subagents.length === 0 ? own : { ...own, subagent_trajectories: subagents };
}

function toTrajectory(head: Checkpoint, state: unknown): Fields {
  const { agentId, sessionId, branch, id } = head;
  const messages = listMessages(state) ?? [];
  const steps = toSteps(messages).map((step, at) => ({ step_id: at + 1, ...step }));
  if (steps.length === 0)
    throw new InvalidInputError(
      `Checkpoint ${id} of session "${sessionId}" has no messages, so it is not a trajectory. Export it without --format.`,
      { details: { sessionId, checkpoint: id } },
    );
  const { agent, trajectory } = fieldsOf(state);
  const known = { name: agentId ?? sessionId, version: 'unknown', ...pick(agent, 'name') };
  const about = pick(trajectory, 'schema_version');
  const origin = { session_id: sessionId, extra: { savestate: { session: sessionId, branch, checkpoint: id } } };
  return { schema_version: VERSION, ...(about ?? origin), agent: known, steps };
}

/** The fields of what an import kept; undefined if it is none. */
function pick(kept: unknown, must: string): Fields | undefined {
  const fields = fieldsOf(kept);
  return typeof fields[must] === 'string' ? fields : undefined;
}

function toSteps(messages: readonly unknown[]): Step[] {
  const steps: Step[] = [];
  for (const [at, given] of messages.entries()) {
    const message = withoutThoughts(given);
    const { calls, results, text } = readParts(message);
    const fields = fieldsOf(message);
    const role = String(fields.role ?? '');
    const isAnswer = results.length > 0 && calls.length === 0 && (role === 'tool' || text === '');
    if (!isAnswer) steps.push(toStep(message, { calls, at }));
    for (const [nth, result] of results.entries()) addResult(steps, result, partAt(fields.content, 'tool-result', nth));
  }
  return steps;
}

const THOUGHTS = new Set<unknown>(['reasoning', 'thinking']);

/** A message whose thoughts are beside its words, as steps have them. */
function withoutThoughts(message: unknown): unknown {
  const { content, extra } = fieldsOf(message);
  if (!isRecord(message) || !Array.isArray(content)) return message;
  const isThought = (part: unknown) => THOUGHTS.has(fieldsOf(part).type);
  const thoughts = content.filter(isThought).map((part) => readParts({ role: 'agent', content: [part] }).text);
  if (thoughts.length === 0) return message;
  const thought = { reasoning_content: thoughts.join('\n') };
  return { ...message, content: content.filter((part) => !isThought(part)), extra: { ...fieldsOf(extra), ...thought } };
}

function toStep(
  message: unknown,
  { calls, at }: { readonly calls: readonly MessageCall[]; readonly at: number },
): Step {
  const { role, type, content, timestamp, extra } = fieldsOf(message);
  const { speaker } = readParts(message);
  const source = SOURCES[String(role ?? type ?? speaker)] ?? SOURCES[speaker] ?? 'agent';
  const listed = calls.map(({ id, name, input }, nth) => ({
    tool_call_id: id ?? `call-${at + 1}-${nth + 1}`,
    function_name: name,
    arguments: toArguments(input),
    ...fieldsOf(partAt(content, 'tool-call', nth).extra),
  }));
  return withoutUndefined({
    timestamp: typeof timestamp === 'string' ? timestamp : undefined,
    source,
    message: toSaid(message),
    tool_calls: listed.length === 0 ? undefined : listed,
    ...fieldsOf(extra),
  }) as Step;
}

/** A text, or the parts of a message that shows pictures. */
function toSaid(message: unknown): unknown {
  const { content } = fieldsOf(message);
  const parts = Array.isArray(content) ? content.map(fieldsOf) : [];
  const isPicture = ({ type, source }: Fields) => type === 'image' && typeof fieldsOf(source).path === 'string';
  if (!parts.some(isPicture)) return readParts(message).text;
  return parts.filter((part) => part.type === 'text' || isPicture(part));
}

function partAt(content: unknown, type: string, nth: number): Fields {
  const parts = Array.isArray(content) ? content.map(fieldsOf) : [];
  return parts.filter((part) => part.type === type)[nth] ?? {};
}

/** Arguments are an object there. */
function toArguments(input: unknown): Fields {
  const value: unknown = toJsonForm(typeof input === 'string' ? parseJsonOrText(input) : input);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields;
  return value === undefined ? {} : { input: value };
}

/** A result belongs to the step with its call; without one, to the step before it. */
function addResult(steps: Step[], { id, output }: MessageResult, part: Fields): void {
  const owner = steps.findLast(({ tool_calls: calls }) => calls?.some(({ tool_call_id: call }) => call === id));
  if (steps.length === 0) steps.push({ source: 'system', message: '' });
  const step = owner ?? (steps.at(-1) as Step);
  step.observation ??= { results: [] };
  step.observation.results.push({
    ...(owner !== undefined && { source_call_id: id }),
    content: typeof output === 'string' ? output : formatOutput(output),
    ...fieldsOf(part.extra),
  });
}

function formatOutput(output: unknown): unknown {
  const isParts = Array.isArray(output) && output.every((part) => typeof fieldsOf(part).type === 'string');
  return isParts || output === null ? output : formatValue(output);
}
