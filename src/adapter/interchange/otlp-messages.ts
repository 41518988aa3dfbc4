import { type Fields, fieldsOf } from '../../manager/revision/transcript.ts';
import { checkBounds } from './document.ts';
import type { ImportedMessage, MessagePart } from './imported-session.ts';
import { type Attributes, FORMAT } from './otlp-spans.ts';

type Role = ImportedMessage['role'];

/** Roles as conventions, providers and frameworks call them. */
const ROLES: { readonly [name: string]: Role } = {
  system: 'system',
  developer: 'system',
  user: 'user',
  human: 'user',
  assistant: 'assistant',
  model: 'assistant',
  ai: 'assistant',
  tool: 'tool',
  function: 'tool',
};

const TEXTS = new Set<unknown>(['text', 'input_text', 'output_text']);
const CALLS = new Set<unknown>(['tool_call', 'tool-call', 'tool_use', 'function_call']);
const RESULTS = new Set<unknown>(['tool_call_response', 'tool-result', 'tool_result', 'function_call_output']);
const MESSAGE_FIELDS = ['role', 'content', 'parts', 'contents', 'tool_calls', 'message', 'type'];

/** Messages in one of the forms that traces have: a list, as JSON or as it is, alone or as `messages` or `choices`; or one text. */
export function readMessages(found: unknown, role: Role): ImportedMessage[] {
  const value = parseText(found);
  if (value === undefined || value === null) return [];
  const { choices = value, messages = choices } = fieldsOf(value);
  return toList(messages).map((each) =>
    isMessage(each) ? toMessage(each, role) : { role, content: typeof each === 'string' ? each : JSON.stringify(each) },
  );
}

/** The messages of attributes such as `gen_ai.prompt.0.content`: one for each number. */
export function readNumbered(attributes: Attributes, prefix: string, role: Role): ImportedMessage[] {
  const root: Nested = Object.create(null);
  for (const [name, value] of attributes) {
    if (!name.startsWith(prefix)) continue;
    const path = name.slice(prefix.length).split('.');
    const last = path.pop() ?? '';
    let at = root;
    for (const step of path) {
      const known = at[step];
      const below: Nested = typeof known === 'object' ? known : Object.create(null);
      at[step] = below;
      at = below;
    }
    at[last] = value as string;
  }
  return readMessages(Object.values(root), role);
}

type Nested = { [name: string]: Nested | string };

/** The message of an event of a span, such as `gen_ai.user.message`; undefined if it is none. */
export function readEvent(name: string, attributes: Attributes): ImportedMessage | undefined {
  const [, kind] = /^gen_ai\.(system|user|assistant|tool|choice)(?:\.message)?$/.exec(name) ?? [];
  if (kind === undefined) return undefined;
  const fields: Fields = {
    ...Object.fromEntries(attributes),
    ...fieldsOf(parseText(attributes.get('gen_ai.event.content'))),
  };
  const content = parseText(fields.content);
  const isParts = Array.isArray(content) && content.every((part) => typeof part === 'object');
  return toMessage({ ...fields, ...(isParts && { content }) }, ROLES[kind] ?? 'assistant');
}

function isMessage(value: unknown): value is Fields {
  return MESSAGE_FIELDS.some((field) => fieldsOf(value)[field] !== undefined);
}

function toMessage(given: Fields, otherwise: Role): ImportedMessage {
  const inner = parseText(given.message);
  if (isMessage(inner)) return toMessage(inner, otherwise);
  if (CALLS.has(given.type)) return { role: 'assistant', content: [toPart(given)] };
  if (RESULTS.has(given.type)) return { role: 'tool', content: [toPart(given)] };
  const role = ROLES[String(given.role)] ?? otherwise;
  return { role, content: toContent(given.parts ?? given.contents ?? given.content ?? inner ?? '', given, role) };
}

function toContent(said: unknown, given: Fields, role: Role): string | MessagePart[] {
  if (role === 'tool' && typeof said === 'string') return [toPart({ ...given, type: 'tool_result' })];
  const calls = toList(given.tool_calls).map((call) => toPart({ ...unwrap(call), type: 'tool_call' }));
  if (typeof said === 'string' && calls.length === 0) return said;
  const parts = said === '' ? [] : toList(said);
  return [...parts.map((part) => toPart(typeof part === 'string' ? { text: part } : unwrap(part))), ...calls];
}

/** Without the one field around it that OpenInference and Bedrock have. */
function unwrap(given: unknown): Fields {
  const { tool_call, message_content, toolUse, toolResult, ...rest } = fieldsOf(given);
  if (toolUse !== undefined) return { type: 'tool_use', ...fieldsOf(toolUse) };
  if (toolResult !== undefined) return { type: 'tool_result', ...fieldsOf(toolResult) };
  return { ...rest, ...fieldsOf(tool_call ?? message_content) };
}

/** A part of a message as one that every view reads. */
function toPart(part: Fields): MessagePart {
  const { type = typeof part.text === 'string' ? 'text' : 'data' } = part;
  if (TEXTS.has(type)) return { type: 'text', text: String(part.text ?? part.content ?? '') };
  if (CALLS.has(type)) return { type: 'tool-call', ...called(part), input: parseText(first(part, INPUTS)) ?? {} };
  if (RESULTS.has(type)) return { type: 'tool-result', ...called(part), output: toOutput(first(part, OUTPUTS)) };
  return { ...part, type: String(type) };
}

const INPUTS = ['input', 'args', 'arguments'];
const OUTPUTS = ['output', 'result', 'response', 'content'];
const IDS = ['toolCallId', 'tool_call_id', 'tool_use_id', 'toolUseId', 'call_id', 'id'];

/** The first field that is there, also in the `function` of OpenAI's calls. */
function first(part: Fields, names: readonly string[]): unknown {
  const inner = fieldsOf(part.function);
  return names.map((name) => part[name] ?? inner[name]).find((value) => value !== undefined);
}

function called(part: Fields): { readonly toolCallId: string; readonly toolName: string } {
  const toolName = String(first(part, ['toolName', 'name']) ?? 'tool');
  return { toolCallId: String(first(part, IDS) ?? toolName), toolName };
}

function toOutput(output: unknown): unknown {
  const { type, value } = fieldsOf(output);
  return typeof type === 'string' && value !== undefined ? output : { type: 'json', value: parseText(output) ?? null };
}

/** The value of a JSON text; any other text as it is. */
export function parseText(value: unknown): unknown {
  if (typeof value !== 'string' || !/^\s*[[{]/.test(value)) return value;
  let parsed: unknown;
  try {
    parsed = JSON.parse(value);
  } catch {
    return value; // it only looks like JSON
  }
  checkBounds(parsed, FORMAT);
  return parsed;
}

/** What is in a list, also in one that has numbers for names; one value alone. */
function toList(value: unknown): unknown[] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return value.filter((each) => each !== null);
  const names = Object.keys(fieldsOf(value));
  return names.length > 0 && names.every((name) => /^\d+$/.test(name)) ? Object.values(value) : [value];
}
