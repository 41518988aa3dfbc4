import type { DriftEvent } from '../../runtime/drift/step/drift-event.ts';
import { isLangChainMessage, readMessage } from './message-text.ts';
import { fieldsOf } from './state-view.ts';

type Fields = Readonly<Record<string, unknown>>;

/** A message as what a drift detector watches: the calls of its turn, their results, and what was said. */
export function toEvents(message: unknown, time: Date): DriftEvent[] {
  const read = readMessage(message);
  if (read === undefined) return [];
  const fields = fieldsOf(message);
  if (isLangChainMessage(message)) return toGraphEvents(fields, read.speaker, time);
  const agent = typeof fields.name === 'string' ? fields.name : read.speaker;
  const turn = Array.isArray(fields.turn) ? fields.turn.flatMap((part) => readTurn(part, agent)) : [];
  const text = typeof fields.content === 'string' ? fields.content : read.text;
  const role = typeof fields.role === 'string' ? fields.role : undefined;
  return [...turn, { kind: 'message', agent, text, at: time.getTime(), ...(role !== undefined && { role }) }];
}

const ROLES: Readonly<Record<string, string>> = { human: 'user', system: 'system', ai: 'agent', chat: 'agent' };

/** A message of LangChain: its calls are beside what it says, and their results are messages of their own. */
function toGraphEvents(fields: Fields, speaker: string, time: Date): DriftEvent[] {
  const [kind = '', name = kind] = speaker.split(' ');
  const at = time.getTime();
  const text = typeof fields.content === 'string' ? fields.content : JSON.stringify(fields.content ?? '');
  if (kind === 'tool' || kind === 'function') {
    const callId = typeof fields.tool_call_id === 'string' ? { callId: fields.tool_call_id } : {};
    return [{ kind: 'result', name, ...callId, output: text, isError: fields.status === 'error', at }];
  }
  const said: DriftEvent[] =
    text === '' ? [] : [{ kind: 'message', agent: name, role: ROLES[kind] ?? 'agent', text, at }];
  return [...said, ...readGraphCalls(fields, name, at)];
}

function readGraphCalls({ tool_calls: list }: Fields, agent: string, at: number): DriftEvent[] {
  const calls = Array.isArray(list) ? list.map(fieldsOf) : [];
  return calls.map(({ name, id, args }): DriftEvent => {
    const callId = typeof id === 'string' ? { callId: id } : {};
    return { kind: 'call', agent, name: String(name), ...callId, input: args, at };
  });
}

/** The parts of a model's own message that are calls, and of a tool's that are results. */
function readTurn(message: unknown, agent: string): DriftEvent[] {
  const { content } = fieldsOf(message);
  return Array.isArray(content) ? content.flatMap((part) => readPart(fieldsOf(part), agent)) : [];
}

function readPart(part: Fields, agent: string): DriftEvent[] {
  const name = typeof part.toolName === 'string' ? part.toolName : undefined;
  const callId = typeof part.toolCallId === 'string' ? part.toolCallId : undefined;
  if (name === undefined || callId === undefined) return [];
  if (part.type === 'tool-call') return [{ kind: 'call', agent, name, callId, input: part.input }];
  if (part.type !== 'tool-result') return [];
  const { type, value } = fieldsOf(part.output);
  return [{ kind: 'result', name, callId, output: value, isError: String(type).startsWith('error') }];
}
