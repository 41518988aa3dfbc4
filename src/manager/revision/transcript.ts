import { isRecord } from '../../core/options.ts';
import { ForeignInstance } from '../../core/value/class-codec.ts';
import { isTranscript, readItems } from './item-messages.ts';

/** The fields of an object, by name. */
export type Fields = Readonly<Record<string, unknown>>;

/** The fields of an object, or of an instance whose class is not known here; none of anything else. */
export function fieldsOf(value: unknown): Fields {
  if (value instanceof ForeignInstance) return fieldsOf(value.data);
  return isRecord(value) ? value : {};
}

/** The channels of a state that LangGraph saved; undefined for any other state. */
export function channelsOf(state: unknown): Fields | undefined {
  const { channel_values: values, channel_versions: versions } = fieldsOf(state);
  return isRecord(values) && isRecord(versions) ? values : undefined;
}

/** The messages of a state: of a group chat, of a fleet, of a thread of LangGraph, of an adapter, or of any state with a list of that name. */
export function listMessages(state: unknown): readonly unknown[] | undefined {
  if (isTranscript(state)) return readItems(state);
  const own = fieldsOf(state);
  const holders = [fieldsOf(own.chat), fieldsOf(own.fleet), channelsOf(state) ?? {}, own];
  return holders.map(({ messages }) => messages).find((list) => Array.isArray(list));
}

/** The names of the tools that a message calls, in the forms of the AI SDK, OpenAI, Anthropic and LangChain. */
export function toolsCalledBy(message: unknown): string[] {
  const { content, turn, tool_calls: calls, toolCalls } = fieldsOf(message);
  const inner = Array.isArray(turn) ? turn.flatMap(toolsCalledBy) : [];
  const parts = Array.isArray(content) ? content.map(fieldsOf).filter(({ type }) => CALL_TYPES.has(type)) : [];
  const beside = [calls, toolCalls].flatMap((list) => (Array.isArray(list) ? list.map(fieldsOf) : []));
  return [...inner, ...[...parts, ...beside].map(nameOf)];
}

const CALL_TYPES = new Set<unknown>(['tool-call', 'tool_use', 'tool_call']);

function nameOf({ toolName, name, function: called }: Fields): string {
  return String(toolName ?? name ?? fieldsOf(called).name ?? '');
}
