import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { AgentState } from '../agent/agent-state.ts';
import { type ChatMessage, findToolResults, type ToolResult } from '../agent/chat-message.ts';
import { saidIn } from '../chat/chat-state.ts';
import { type LlmConfig, parseLlmConfig } from '../model/llm-config.ts';
import { ChatPath } from './chat-path.ts';
import {
  type AgentTarget,
  checkIntervention,
  type Intervention,
  type InterventionRecord,
  type MessagePlace,
  type MessageTarget,
  type Target,
  type ToolResultPlace,
  type ToolTarget,
} from './intervention.ts';

/** Finds what an intervention is about: which checkpoint is restored, and what is changed there. Nothing is written. */
export async function locateTarget(
  manager: CheckpointManager,
  idOrPrefix: string,
  intervention: Intervention | undefined,
): Promise<Target> {
  if (intervention !== undefined) checkIntervention(intervention);
  const path = await ChatPath.open(manager, idOrPrefix);
  if (intervention === undefined) return { kind: 'agent', ...placeOf(path, path.head, { kind: 'none' }) };
  if ('message' in intervention) return locateMessage(path, intervention);
  if ('systemMessage' in intervention) return locatePrompt(path, intervention.systemMessage);
  if ('llmConfig' in intervention) return locateModel(path, intervention.llmConfig);
  return locateTool(path, intervention);
}

function placeOf(
  { head }: ChatPath,
  base: Checkpoint,
  { kind, ...what }: Omit<InterventionRecord, 'originId' | 'baseId'>,
) {
  return { base, record: { kind, originId: head.id, baseId: base.id, ...what } };
}

function locateMessage(
  path: ChatPath,
  { message: wanted, replacement }: { readonly message: MessagePlace; readonly replacement: string },
): MessageTarget {
  const index = findIndex(path, wanted);
  const message = saidIn(path.state.chat)[index] as ChatMessage;
  const base = findMessageBase(path, index);
  const lengths = { originalChars: message.content.length, replacementChars: replacement.length };
  const place = placeOf(path, base, { kind: 'message', index, agent: message.name, ...lengths });
  return { kind: 'message', ...place, replayBranch: path.branchAfter(base), index, message, replacement };
}

function findIndex(path: ChatPath, wanted: MessagePlace): number {
  const { length } = saidIn(path.state.chat);
  const index = (wanted === 'last' ? length : wanted) - 1;
  if (index >= 0 && index < length) return index;
  throw new InvalidInputError(
    `There is no message ${wanted} at checkpoint ${path.head.id}: the conversation has ${length} there, counted from 1.`,
    { details: { message: wanted, messages: length, checkpointId: path.head.id } },
  );
}

/** Where the message is the last one, so that private copies and counters are those of that moment. */
function findMessageBase(path: ChatPath, index: number): Checkpoint {
  const { messages, pendingReply } = path.state.chat;
  const appended = index === messages.length ? path.head : path.findAppended(index + 1);
  if (appended !== undefined) return appended;
  if (index === messages.length - 1 && pendingReply === null) return path.head;
  throw missingBase(path, `at which message ${index + 1} was appended`);
}

function missingBase({ head, deletedCount }: ChatPath, what: string): NotFoundError {
  const why =
    deletedCount > 0
      ? `${deletedCount} checkpoints between ${head.id} and its beginning were deleted, and it was one of them. Choose a later message, or pin what experiments need.`
      : 'The conversation was taken over from elsewhere, and its earlier checkpoints were not. Use the session it came from.';
  return new NotFoundError(`The checkpoint ${what} is not there. ${why}`, {
    details: { checkpointId: head.id, deletedCount },
  });
}

function locatePrompt(path: ChatPath, { agent, text }: { readonly agent: string; readonly text: string }): AgentTarget {
  const { systemMessage } = openAgent(path, agent);
  const lengths = { originalChars: systemMessage.length, replacementChars: text.length };
  const place = placeOf(path, path.head, { kind: 'system_message', agent, ...lengths });
  return { kind: 'agent', ...place, agent, override: { systemMessage: text } };
}

function locateModel(
  path: ChatPath,
  { agent, config }: { readonly agent: string; readonly config: Partial<LlmConfig> },
): AgentTarget {
  const { llmConfig } = openAgent(path, agent);
  const merged = 'provider' in config ? config : { ...llmConfig, ...config };
  const place = placeOf(path, path.head, { kind: 'llm_config', agent });
  return { kind: 'agent', ...place, agent, override: { llmConfig: parseLlmConfig(merged) } };
}

function openAgent({ state, head }: ChatPath, name: string): AgentState {
  const agent = state.agents[name];
  if (agent !== undefined) return agent;
  throw new InvalidInputError(
    `There is no agent "${name}" in the conversation of checkpoint ${head.id}. There are: ${state.order.join(', ')}.`,
    { details: { agent: name, agents: state.order } },
  );
}

type ToolIntervention = Extract<Intervention, { readonly toolResult: ToolResultPlace }>;

function locateTool(path: ChatPath, { toolResult, replacement, isError = false }: ToolIntervention): ToolTarget {
  const { index, result, message } = findResult(path, toolResult);
  const { before, reply } = path.findTurn(index);
  if (before === undefined) throw missingBase(path, `at which the turn of message ${index + 1} began`);
  const { callId, tool, outcome } = result;
  const results = findToolResults(message).filter(({ round }) => round === result.round);
  const later = results.slice(results.findIndex((entry) => entry.callId === callId) + 1);
  const lengths = { originalChars: outcome.text.length, replacementChars: replacement.length };
  return {
    kind: 'tool_result',
    ...placeOf(path, before, { kind: 'tool_result', index, agent: message.name, callId, tool, ...lengths }),
    replayBranch: (reply ?? path.head).branch,
    speaker: message.name,
    callId,
    original: outcome,
    replacement: { isError, text: replacement },
    kept: new Map(later.map((entry) => [entry.callId, entry.outcome])),
  };
}

function findResult(path: ChatPath, wanted: ToolResultPlace) {
  const at = wanted.message === undefined ? undefined : findIndex(path, wanted.message);
  const all = saidIn(path.state.chat)
    .flatMap((message, index) => findToolResults(message).map((result) => ({ index, message, result })))
    .filter(({ index }) => at === undefined || at === index);
  const fitting = all.filter(
    ({ result }) =>
      (wanted.callId === undefined || result.callId === wanted.callId) &&
      (wanted.tool === undefined || result.tool === wanted.tool),
  );
  const [found] = fitting;
  if (found !== undefined && fitting.length === 1) return found;
  throw new InvalidInputError(
    `${fitting.length === 0 ? 'No result of a tool' : 'More than one result'} fits ${JSON.stringify(wanted)}. There are: ${describeResults(fitting.length === 0 ? all : fitting)}.`,
    { details: { wanted, found: fitting.length } },
  );
}

/** An error is read by people: more than this many would not help them. */
const MAX_NAMED = 20;

function describeResults(all: readonly { readonly index: number; readonly result: ToolResult }[]): string {
  const named = all
    .slice(0, MAX_NAMED)
    .map(({ index, result }) => `${result.callId} of ${result.tool} in message ${index + 1}`);
  return `${named.join('; ') || 'none'}${all.length > MAX_NAMED ? `; and ${all.length - MAX_NAMED} more` : ''}`;
}
