import { ForeignInstance } from '../core/value/class-codec.ts';
import { fieldsOf, listMessages } from '../manager/revision/transcript.ts';
import { formatValue, toJsonForm } from './json-form.ts';
import type { call, result, Shape } from './shapes.ts';

/** A message of a chat as people read it. */
export type ChatMessage = { readonly speaker: string; readonly text: string };

/** A call of a tool inside a message. */
export type MessageCall = Shape<typeof call>;

/** What a tool answered. */
export type MessageResult = Shape<typeof result>;

/** A message with its calls apart from its words. */
export type ReadMessage = {
  readonly speaker: string;
  readonly text: string;
  readonly calls: readonly MessageCall[];
  readonly results: readonly MessageResult[];
};

type Fields = Readonly<Record<string, unknown>>;
type Part = { readonly call: MessageCall } | { readonly result: MessageResult } | { readonly text: string };

/** Reads a value as a message of a chat, with what it calls and hears; undefined if it is none. */
export function readMessage(value: unknown): ChatMessage | undefined {
  if (roleOf(value) === undefined) return undefined;
  const { speaker, text, calls, results } = readParts(value);
  const [first] = results;
  if (first !== undefined && results.length === 1 && text === '' && calls.length === 0)
    return { speaker: first.name === 'tool' ? 'tool' : `tool ${first.name}`, text: formatOutput(first) };
  const did = [
    ...calls.map(
      ({ name, input }) => `[call] ${name}(${typeof input === 'string' ? input : formatValue(input ?? {})})`,
    ),
    ...results.map((result) => `[result] ${result.name}: ${formatOutput(result)}`),
  ];
  // Whoever has heard the results speaks after them.
  const lines = results.length > 0 ? [...did, text] : [text, ...did];
  return { speaker, text: lines.filter((line) => line !== '').join('\n') };
}

function formatOutput({ output }: MessageResult): string {
  return typeof output === 'string' ? output : formatValue(output);
}

/** The messages of a state as people read them; undefined if it has none, or other things among them. */
export function findMessages(state: unknown): readonly ChatMessage[] | undefined {
  const messages = listMessages(state)?.map(readMessage);
  return messages?.every((message) => message !== undefined) ? messages : undefined;
}

const SHOWN_INPUT_CHARS = 60;

/** A call in a few words: the tool, and the first thing it was given. */
export function describeCall({ name, input }: MessageCall): string {
  const given = typeof input === 'object' && input !== null ? Object.values(input) : [input];
  const [first] = given.filter((value) => typeof value === 'string' || typeof value === 'number').map(String);
  if (first === undefined || first === '') return name;
  return `${name} “${first.length > SHOWN_INPUT_CHARS ? `${first.slice(0, SHOWN_INPUT_CHARS)}…` : first}”`;
}

const ROLE_KEYS = ['role', 'speaker', 'from', 'agent', 'name', 'type'] as const;
const TEXT_KEYS = ['content', 'text', 'message'] as const;

/** The messages of LangChain: who speaks is told by their class. */
const LANGCHAIN_TAG = /^langchain\.(Human|AI|Tool|System|Chat|Function)Message(Chunk)?$/;

/** Who speaks in a message, as it says itself: a role, or a name; undefined if it is no message. */
export function roleOf(value: unknown): string | undefined {
  const fields = bodyOf(value);
  const body = TEXT_KEYS.map((key) => fields[key]).find((found) => found !== undefined);
  if (typeof body !== 'string' && body !== null && !(Array.isArray(body) && body.every(isPart))) return undefined;
  const kind = langChainKind(value);
  const [role] = ROLE_KEYS.flatMap((key) => (typeof fields[key] === 'string' ? [String(fields[key])] : []));
  return kind === undefined || (kind === 'chat' && typeof fields.role === 'string') ? role : kind;
}

/** The kind of a message of LangChain, as it is in a state, or as it is printed as JSON. */
function langChainKind(value: unknown): string | undefined {
  const tag = value instanceof ForeignInstance ? value.tag : fieldsOf(value).$class;
  return typeof tag === 'string' ? LANGCHAIN_TAG.exec(tag)?.[1]?.toLowerCase() : undefined;
}

/** The fields of a message; those of LangChain are the data of an instance. */
function bodyOf(value: unknown): Fields {
  const fields = fieldsOf(value);
  return langChainKind(value) !== undefined && '$class' in fields ? fieldsOf(fields.data) : fields;
}

/** A text, or something that says what it is. */
function isPart(part: unknown): boolean {
  const { text, type } = fieldsOf(part);
  return typeof part === 'string' || typeof text === 'string' || typeof type === 'string';
}

/** Reads a message in any of the forms that agents use, ours and those of the AI SDK, Anthropic, OpenAI and LangChain; what is none is shown as it is. */
export function readParts(message: unknown): ReadMessage {
  const role = roleOf(message);
  if (role === undefined) return { speaker: '', text: JSON.stringify(message) ?? '', calls: [], results: [] };
  const fields = bodyOf(message);
  const parts = [...turnParts(fields), ...contentParts(fields, role), ...besideParts(fields)];
  return {
    speaker: typeof fields.name === 'string' ? fields.name : role,
    text: parts.flatMap((part) => ('text' in part && part.text !== '' ? [part.text] : [])).join('\n'),
    calls: parts.flatMap((part) => ('call' in part ? [part.call] : [])),
    results: parts.flatMap((part) => ('result' in part ? [part.result] : [])),
  };
}

/** The calls that one of our agents made on the way to what it said. */
function turnParts({ turn }: Fields): Part[] {
  const messages = Array.isArray(turn) ? turn.map(fieldsOf) : [];
  const parts = messages.flatMap(({ content }) => (Array.isArray(content) ? content.map(toPart) : []));
  return parts.filter((part) => part !== undefined && !('text' in part)) as Part[];
}

/** What a message says: one string, or parts; a message of a tool is a result. */
function contentParts(fields: Fields, role: string): Part[] {
  const said = fields.content ?? fields.text ?? fields.message;
  const parts = Array.isArray(said)
    ? said.map((part) => toPart(part) ?? { text: typeof part === 'string' ? part : formatPart(part) })
    : [{ text: typeof said === 'string' ? said : '' }];
  const isOfTool = role === 'tool' || role === 'function';
  return isOfTool && !parts.some((part) => 'result' in part) ? [{ result: answerOf(fields, said) }] : parts;
}

/** A message that as a whole is the result of a call. */
function answerOf(fields: Fields, output: unknown): MessageResult {
  const { tool_call_id: callId, toolCallId = callId, name = 'tool', status, isError } = fields;
  return { ...idOf(toolCallId), name: String(name), output, isError: status === 'error' || isError === true };
}

function formatPart(part: unknown): string {
  return `[${String(fieldsOf(part).type)}] ${JSON.stringify(toJsonForm(part))}`;
}

function toPart(part: unknown): Part | undefined {
  const fields = fieldsOf(part);
  switch (fields.type) {
    case 'tool-call':
      return {
        call: { ...idOf(fields.toolCallId), name: String(fields.toolName), input: fields.input ?? fields.args },
      };
    case 'tool_use':
      return { call: { ...idOf(fields.id), name: String(fields.name), input: fields.input } };
    case 'tool-result':
      return { result: resultOf(fields) };
    case 'tool_result': {
      const { tool_use_id: id, content: output, is_error: isError } = fields;
      return { result: { ...idOf(id), name: 'tool', output, isError: isError === true } };
    }
    default: {
      const { thinking, text = thinking } = fields;
      return typeof text === 'string' ? { text } : undefined;
    }
  }
}

/** A result as the AI SDK writes it: typed, or bare in older versions. */
function resultOf({ toolCallId, toolName, output, result, isError }: Fields): MessageResult {
  const { type, value } = fieldsOf(output);
  const isTyped = typeof type === 'string' && value !== undefined;
  return {
    ...idOf(toolCallId),
    name: String(toolName),
    output: isTyped ? value : (output ?? result),
    isError: isError === true || (isTyped && type.startsWith('error')),
  };
}

/** Calls beside what is said, as OpenAI and LangChain write them. */
function besideParts({ tool_calls: calls, toolCalls = calls }: Fields): Part[] {
  const list = Array.isArray(toolCalls) ? toolCalls.map(fieldsOf) : [];
  return list.map(({ id, function: called, name = fieldsOf(called).name, args, input, arguments: given }) => ({
    call: { ...idOf(id), name: String(name), input: args ?? input ?? given ?? fieldsOf(called).arguments },
  }));
}

function idOf(id: unknown): { readonly id?: string } {
  return typeof id === 'string' ? { id } : {};
}
