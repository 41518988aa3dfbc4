import { withoutUndefined } from '../../core/defined.ts';
import { checkBounds, refuse } from './document.ts';
import type { ImportedMessage, ImportedRun, ImportedStep, MessagePart } from './imported-session.ts';
import { FORMAT, readSpans, type Span } from './otlp-spans.ts';

/** Names of the same thing in the conventions of OpenTelemetry, OpenInference and the AI SDK, the first that is there counts. */
const NAMES = {
  session: ['gen_ai.conversation.id', 'session.id'],
  agent: ['gen_ai.agent.name', 'agent.name', 'ai.telemetry.functionId'],
  model: ['gen_ai.response.model', 'gen_ai.request.model', 'llm.model_name', 'ai.model.id'],
  instructions: ['gen_ai.system_instructions'],
  input: ['gen_ai.input.messages', 'input.value', 'ai.prompt.messages', 'ai.prompt'],
  output: ['gen_ai.output.messages', 'output.value'],
  text: ['ai.response.text'],
  calls: ['ai.response.toolCalls'],
  tool: ['gen_ai.tool.name', 'tool.name', 'ai.toolCall.name'],
  callId: ['gen_ai.tool.call.id', 'tool_call.id', 'ai.toolCall.id'],
  arguments: ['gen_ai.tool.call.arguments', 'tool.parameters', 'ai.toolCall.args', 'input.value'],
  result: ['gen_ai.tool.call.result', 'ai.toolCall.result', 'output.value'],
} as const;

const KINDS: { readonly [operation: string]: 'model' | 'tool' } = {
  chat: 'model',
  generate_content: 'model',
  text_completion: 'model',
  execute_tool: 'tool',
  LLM: 'model',
  TOOL: 'tool',
  'ai.generateText.doGenerate': 'model',
  'ai.streamText.doStream': 'model',
  'ai.toolCall': 'tool',
};

type Found = { readonly runs: readonly ImportedRun[]; readonly spans: number; readonly otherSpans: number };
type Fields = { readonly [field: string]: unknown };

/** Reads traces of agents: calls of models and tools become the messages of a session for each conversation. Other spans are counted. */
export function readOtlp(document: string): Found {
  const spans = readSpans(document);
  const conversations = new Map<string, Span[]>();
  let otherSpans = 0;
  for (const span of spans) {
    const name = String(look(span, 'session') ?? span.traceId);
    const own = conversations.get(name) ?? [];
    if (kindOf(span) === undefined) otherSpans++;
    else if (own.push(span) === 1) conversations.set(name, own);
  }
  if (conversations.size === 0)
    throw refuse(FORMAT, `none of its ${spans.length} spans is a call of a model or a tool (gen_ai.operation.name)`);
  return { runs: [...conversations].map(([name, own]) => toRun(name, own)), spans: spans.length, otherSpans };
}

function kindOf({ attributes }: Span): 'model' | 'tool' | undefined {
  const names = ['gen_ai.operation.name', 'openinference.span.kind', 'ai.operationId'];
  return names.map((name) => KINDS[String(attributes.get(name))]).find((kind) => kind !== undefined);
}

function look({ attributes }: Span, what: keyof typeof NAMES): unknown {
  return NAMES[what].map((name) => attributes.get(name)).find((value) => value !== undefined && value !== '');
}

function toRun(name: string, spans: readonly Span[]): ImportedRun {
  const agent = spans.map((span) => look(span, 'agent')).find((found) => typeof found === 'string') ?? 'agent';
  const conversation = new Conversation(String(agent));
  const steps = spans.map((span) =>
    kindOf(span) === 'model' ? conversation.takeModel(span) : conversation.takeTool(span),
  );
  const traceIds = [...new Set(spans.map(({ traceId }) => traceId))];
  return { format: 'otlp', names: [name], agent: String(agent), state: { trace: { traceIds } }, steps };
}

/** Puts the messages of a conversation together: every model call repeats what came before, and a tool's result is told twice. */
class Conversation {
  readonly #agent: string;
  /** How often a message was there. */
  readonly #known = new Map<string, number>();
  readonly #called = new Set<string>();
  readonly #answered = new Set<string>();

  constructor(agent: string) {
    this.#agent = agent;
  }

  takeModel(span: Span): ImportedStep {
    const given = [...readInstructions(look(span, 'instructions')), ...readMessages(look(span, 'input'), 'user')];
    const counts = new Map<string, number>();
    const fresh = given.filter((message) => {
      const key = JSON.stringify([message.role, message.content]);
      counts.set(key, (counts.get(key) ?? 0) + 1);
      return (counts.get(key) ?? 0) > (this.#known.get(key) ?? 0) && !this.#isAnswered(message);
    });
    const answer = readAnswer(span).map((message) => ({ ...message, name: this.#agent }));
    const extra = withoutUndefined({ model: look(span, 'model') });
    const said = answer.length > 0 ? answer : [{ role: 'assistant' as const, content: '', name: this.#agent }];
    return this.#keep(span, [...fresh, ...said.map((message) => ({ ...message, extra }))]);
  }

  takeTool(span: Span): ImportedStep {
    const toolName = String(look(span, 'tool') ?? span.name);
    const toolCallId = String(look(span, 'callId') ?? `span-${this.#called.size + 1}`);
    const call = { type: 'tool-call', toolCallId, toolName, input: parseText(look(span, 'arguments')) ?? {} };
    const value = span.error ?? parseText(look(span, 'result')) ?? null;
    const type = `${span.error === undefined ? '' : 'error-'}${typeof value === 'string' ? 'text' : 'json'}`;
    const result = { type: 'tool-result', toolCallId, toolName, output: { type, value } };
    return this.#keep(span, [
      ...(this.#called.has(toolCallId) ? [] : [{ role: 'assistant' as const, name: this.#agent, content: [call] }]),
      ...(this.#answered.has(toolCallId) ? [] : [{ role: 'tool' as const, content: [result] }]),
    ]);
  }

  #isAnswered({ role, content }: ImportedMessage): boolean {
    return (
      role === 'tool' &&
      typeof content !== 'string' &&
      content.every(({ toolCallId: id }) => this.#answered.has(String(id)))
    );
  }

  #keep({ startMs }: Span, messages: readonly ImportedMessage[]): ImportedStep {
    for (const { role, content } of messages) {
      const key = JSON.stringify([role, content]);
      this.#known.set(key, (this.#known.get(key) ?? 0) + 1);
      for (const { type, toolCallId } of typeof content === 'string' ? [] : content) {
        if (type === 'tool-call') this.#called.add(String(toolCallId));
        if (type === 'tool-result') this.#answered.add(String(toolCallId));
      }
    }
    return { atMs: startMs, messages };
  }
}

function readInstructions(found: unknown): ImportedMessage[] {
  const parts = parseText(found);
  return parts === undefined
    ? []
    : readMessages([{ role: 'system', parts: Array.isArray(parts) ? parts : [parts] }], 'system');
}

/** What a model answered; why it did not, if it failed. */
function readAnswer(span: Span): ImportedMessage[] {
  if (span.error !== undefined) return [{ role: 'assistant', content: `The model call failed: ${span.error}` }];
  const own = readMessages(look(span, 'output'), 'assistant');
  if (own.length > 0) return own;
  const [text, calls] = [look(span, 'text'), parseText(look(span, 'calls'))];
  const parts = [...(typeof text === 'string' ? [{ type: 'text', text }] : []), ...(Array.isArray(calls) ? calls : [])];
  return readMessages(parts.length === 0 ? [] : [{ role: 'assistant', content: parts }], 'assistant');
}

/** Messages in one of the forms that traces have: a list, as JSON or as it is, alone or as `messages`; or one text. */
function readMessages(found: unknown, role: ImportedMessage['role']): ImportedMessage[] {
  const value = parseText(found);
  if (value === undefined) return [];
  const { messages = value } = fieldsOf(value);
  const list = Array.isArray(messages) ? messages : [messages];
  return list.map((each) =>
    typeof each === 'object' ? toMessage(fieldsOf(each), role) : { role, content: String(each) },
  );
}

const ROLES = new Set<unknown>(['system', 'user', 'assistant', 'tool']);

function toMessage(
  { role, parts, content, tool_calls: beside }: Fields,
  otherwise: ImportedMessage['role'],
): ImportedMessage {
  const said = parts ?? content ?? '';
  const calls = Array.isArray(beside) ? beside.map((call) => toPart({ ...fieldsOf(call), type: 'tool_call' })) : [];
  const as = ROLES.has(role) ? (role as ImportedMessage['role']) : otherwise;
  if (typeof said === 'string' && calls.length === 0) return { role: as, content: said };
  const list = Array.isArray(said) ? said : [said];
  return {
    role: as,
    content: [
      ...list.map((part) => toPart(typeof part === 'string' ? { type: 'text', text: part } : fieldsOf(part))),
      ...calls,
    ],
  };
}

/** A part of a message in the conventions' form as one that every view reads. */
function toPart(part: Fields): MessagePart {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: String(part.text ?? part.content ?? '') };
    case 'tool_call':
    case 'tool-call':
      return { type: 'tool-call', ...called(part), input: parseText(first(part, CALL_INPUTS)) ?? {} };
    case 'tool_call_response':
    case 'tool-result':
      return { type: 'tool-result', ...called(part), output: toOutput(first(part, CALL_OUTPUTS)) };
    default:
      return { ...part, type: String(part.type ?? 'data') };
  }
}

const CALL_INPUTS = ['input', 'args', 'arguments'];
const CALL_OUTPUTS = ['output', 'result', 'response'];

/** The first field that is there, also in the `function` of OpenAI's calls. */
function first(part: Fields, names: readonly string[]): unknown {
  const inner = fieldsOf(part.function);
  return names.map((name) => part[name] ?? inner[name]).find((value) => value !== undefined);
}

function called(part: Fields): { readonly toolCallId: string; readonly toolName: string } {
  const toolName = String(first(part, ['toolName', 'name']) ?? 'tool');
  return { toolCallId: String(first(part, ['toolCallId', 'id']) ?? toolName), toolName };
}

function toOutput(output: unknown): unknown {
  const { type, value } = fieldsOf(output);
  return typeof type === 'string' && value !== undefined ? output : { type: 'json', value: parseText(output) ?? null };
}

/** The value of a JSON text; any other text as it is. */
function parseText(value: unknown): unknown {
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

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}
