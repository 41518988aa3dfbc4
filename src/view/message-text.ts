import { ForeignInstance } from '../core/value/class-codec.ts';
import { fieldsOf, listMessages } from '../manager/revision/transcript.ts';
import { formatValue, toJsonForm } from './json-form.ts';

/** A message of a chat as people read it. */
export type ChatMessage = { readonly speaker: string; readonly text: string };

const SPEAKER_KEYS = ['role', 'speaker', 'from', 'agent', 'name', 'type'] as const;
const TEXT_KEYS = ['content', 'text', 'message'] as const;

/** The messages of LangChain: who speaks is told by their class. */
const LANGCHAIN_TAG = /^langchain\.(Human|AI|Tool|System|Chat|Function)Message(Chunk)?$/;

/** Whether a value is a message of LangChain. */
export function isLangChainMessage(value: unknown): boolean {
  return readInstance(value) !== undefined;
}

/** Reads a value as a message of a chat, in the forms that agents use; undefined if it is none. */
export function readMessage(value: unknown): ChatMessage | undefined {
  const instance = readInstance(value);
  if (instance !== undefined) return readLangChain(instance.kind, instance.fields);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const fields = value as Readonly<Record<string, unknown>>;
  const speaker = SPEAKER_KEYS.map((key) => fields[key]).find((found) => typeof found === 'string');
  return typeof speaker === 'string' ? readSaid(fields, speaker) : undefined;
}

function readSaid(fields: Readonly<Record<string, unknown>>, speaker: string): ChatMessage | undefined {
  const body = TEXT_KEYS.map((key) => fields[key]).find((found) => found !== undefined);
  const text = readText(body);
  if (text === undefined) return undefined;
  const calls = readToolCalls(fields);
  return { speaker, text: [text, ...calls].filter((part) => part !== '').join('\n') };
}

/** An instance as it is in a state, or as it is printed as JSON. */
function readInstance(
  value: unknown,
): { readonly kind: string; readonly fields: Readonly<Record<string, unknown>> } | undefined {
  const { $class: tag, data } =
    value instanceof ForeignInstance ? { $class: value.tag, data: value.data } : fieldsOf(value);
  const kind = typeof tag === 'string' ? LANGCHAIN_TAG.exec(tag)?.[1] : undefined;
  return kind === undefined ? undefined : { kind: kind.toLowerCase(), fields: fieldsOf(data) };
}

function readLangChain(kind: string, fields: Readonly<Record<string, unknown>>): ChatMessage | undefined {
  const name = typeof fields.name === 'string' ? ` ${fields.name}` : '';
  return readSaid(fields, kind === 'chat' && typeof fields.role === 'string' ? fields.role : `${kind}${name}`);
}

function readText(body: unknown): string | undefined {
  if (typeof body === 'string') return body;
  if (body === null) return '';
  if (!Array.isArray(body)) return undefined;
  const parts = body.map(readPart);
  return parts.every((part) => part !== undefined) ? parts.join('\n') : undefined;
}

/** A part of a message: a text, or a call of a tool, or its result. */
function readPart(part: unknown): string | undefined {
  if (typeof part === 'string') return part;
  if (typeof part !== 'object' || part === null) return undefined;
  const { text, type } = part as { text?: unknown; type?: unknown };
  if (typeof text === 'string') return text;
  return typeof type === 'string' ? `[${type}] ${JSON.stringify(toJsonForm(part))}` : undefined;
}

function readToolCalls(fields: Readonly<Record<string, unknown>>): string[] {
  const calls = fields.tool_calls ?? fields.toolCalls;
  return Array.isArray(calls) ? calls.map((call) => `[call] ${formatCall(call)}`) : [];
}

/** A call as it would be written in a program, if it says what is called with what. */
function formatCall(call: unknown): string {
  const { name, args } = fieldsOf(call);
  return typeof name === 'string' && args !== undefined ? `${name}(${formatValue(args)})` : formatValue(call);
}

/** The messages of a state as people read them; undefined if it has none, or other things among them. */
export function findMessages(state: unknown): readonly ChatMessage[] | undefined {
  const messages = listMessages(state)?.map(readMessage);
  return messages?.every((message) => message !== undefined) ? messages : undefined;
}
