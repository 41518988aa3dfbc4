import { fieldsOf } from '../manager/revision/transcript.ts';
import { isLangChainMessage, readMessage } from './message-text.ts';

/** A call of a tool inside a message. */
export type MessageCall = { readonly id?: string; readonly name: string; readonly input?: unknown };

/** What a tool answered. */
export type MessageResult = {
  readonly id?: string;
  readonly name: string;
  readonly output?: unknown;
  readonly isError: boolean;
};

/** A message with its calls apart from its words. */
export type ReadMessage = {
  readonly speaker: string;
  readonly text: string;
  readonly calls: readonly MessageCall[];
  readonly results: readonly MessageResult[];
};

type Fields = Readonly<Record<string, unknown>>;
type Part = { readonly call: MessageCall } | { readonly result: MessageResult } | { readonly text: string };

/** Reads a message in any of the forms that agents use, ours and those of the AI SDK, Anthropic, OpenAI and LangChain; what is none is shown as it is. */
export function readParts(message: unknown): ReadMessage {
  const read = readMessage(message);
  if (read === undefined) return { speaker: '', text: JSON.stringify(message) ?? '', calls: [], results: [] };
  const fields = fieldsOf(message);
  const parts = [...turnParts(fields), ...contentParts(fields, read.speaker), ...besideParts(fields)];
  return {
    speaker: speakerOf(message, fields, read.speaker),
    text: parts.flatMap((part) => ('text' in part && part.text !== '' ? [part.text] : [])).join('\n'),
    calls: parts.flatMap((part) => ('call' in part ? [part.call] : [])),
    results: parts.flatMap((part) => ('result' in part ? [part.result] : [])),
  };
}

function speakerOf(message: unknown, { name }: Fields, speaker: string): string {
  if (isLangChainMessage(message)) return speaker.split(' ').at(-1) ?? speaker;
  return typeof name === 'string' ? name : speaker;
}

/** The calls that one of our agents made on the way to what it said. */
function turnParts({ turn }: Fields): Part[] {
  const messages = Array.isArray(turn) ? turn.map(fieldsOf) : [];
  const parts = messages.flatMap(({ content }) => (Array.isArray(content) ? content.map(toPart) : []));
  return parts.filter((part) => part !== undefined && !('text' in part)) as Part[];
}

/** What a message says: one string, or parts; a message of a tool is a result. */
function contentParts(fields: Fields, speaker: string): Part[] {
  const said = fields.content ?? fields.text ?? fields.message;
  const parts = Array.isArray(said) ? said.flatMap(partsOf) : [{ text: typeof said === 'string' ? said : '' }];
  const isOfTool = fields.role === 'tool' || /^(tool|function)\b/.test(speaker);
  return isOfTool && !parts.some((part) => 'result' in part) ? [{ result: answerOf(fields, said) }] : parts;
}

/** A message that as a whole is the result of a call. */
function answerOf(fields: Fields, output: unknown): MessageResult {
  const { tool_call_id: callId, toolCallId = callId, name = 'tool', status, isError } = fields;
  return { ...idOf(toolCallId), name: String(name), output, isError: status === 'error' || isError === true };
}

function partsOf(part: unknown): Part[] {
  return [toPart(part) ?? { text: typeof part === 'string' ? part : JSON.stringify(part) }];
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
    default:
      return typeof fields.text === 'string' ? { text: fields.text } : undefined;
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
