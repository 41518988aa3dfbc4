import { withoutUndefined } from '../../core/defined.ts';
import { refuse } from './document.ts';
import type { ImportedMessage, ImportedRun, ImportedStep, MessagePart } from './imported-session.ts';
import { parseText, readEvent, readMessages, readNumbered } from './otlp-messages.ts';
import { FORMAT, readSpans, type Span } from './otlp-spans.ts';

/** Names of the same thing in the conventions of OpenTelemetry, OpenInference, OpenLLMetry and the AI SDK, the first that is there counts. */
const NAMES = {
  session: [
    'gen_ai.conversation.id',
    'session.id',
    'gen_ai.session.id',
    'langfuse.session.id',
    'traceloop.association.properties.session_id',
    'ai.telemetry.metadata.sessionId',
  ],
  agent: ['gen_ai.agent.name', 'agent.name', 'ai.telemetry.functionId', 'service.name'],
  model: ['gen_ai.response.model', 'gen_ai.request.model', 'llm.model_name', 'ai.model.id'],
  instructions: ['gen_ai.system_instructions'],
  messages: ['gen_ai.input.messages'],
  input: ['gen_ai.prompt', 'input.value', 'ai.prompt.messages', 'ai.prompt'],
  answers: ['gen_ai.output.messages'],
  output: ['gen_ai.completion', 'output.value'],
  text: ['ai.response.text', 'ai.result.text', 'ai.response.object'],
  calls: ['ai.response.toolCalls'],
  tool: ['gen_ai.tool.name', 'tool.name', 'ai.toolCall.name', 'traceloop.entity.name'],
  callId: ['gen_ai.tool.call.id', 'tool_call.id', 'ai.toolCall.id'],
  arguments: [
    'gen_ai.tool.call.arguments',
    'tool.parameters',
    'ai.toolCall.args',
    'traceloop.entity.input',
    'input.value',
  ],
  result: ['gen_ai.tool.call.result', 'ai.toolCall.result', 'traceloop.entity.output', 'output.value'],
} as const;

/** Where a span says what it is. */
const KIND_NAMES = [
  'gen_ai.operation.name',
  'openinference.span.kind',
  'ai.operationId',
  'llm.request.type',
  'traceloop.span.kind',
  'gen_ai.span.kind',
];

const KINDS: { readonly [operation: string]: 'model' | 'tool' } = {
  chat: 'model',
  completion: 'model',
  generate_content: 'model',
  text_completion: 'model',
  execute_tool: 'tool',
  tool: 'tool',
  LLM: 'model',
  TOOL: 'tool',
  'ai.generateText.doGenerate': 'model',
  'ai.streamText.doStream': 'model',
  'ai.generateObject.doGenerate': 'model',
  'ai.streamObject.doStream': 'model',
  'ai.toolCall': 'tool',
};

/** How far up a span's parents are looked for what it does not say itself. */
const MAX_PARENTS = 100;

type Found = { readonly runs: readonly ImportedRun[]; readonly spans: number; readonly otherSpans: number };

/** Reads traces of agents: calls of models and tools become the messages of a session for each conversation. Other spans are counted. */
export function readOtlp(document: string): Found {
  const spans = readSpans(document);
  const conversations = new Map<string, Span[]>();
  let otherSpans = 0;
  for (const span of spans) {
    const name = String(lookUp(span, 'session') ?? span.traceId);
    const own = conversations.get(name) ?? [];
    if (kindOf(span) === undefined) otherSpans++;
    else if (own.push(span) === 1) conversations.set(name, own);
  }
  if (conversations.size === 0)
    throw refuse(FORMAT, `none of its ${spans.length} spans is a call of a model or a tool (gen_ai.operation.name)`);
  return { runs: [...conversations].map(([name, own]) => toRun(name, own)), spans: spans.length, otherSpans };
}

/** What a span calls. A model call directly within another is the same one, told by the library below. */
function kindOf(span: Span): 'model' | 'tool' | undefined {
  const kind = ownKind(span);
  return kind === 'model' && span.parent !== undefined && ownKind(span.parent) === 'model' ? undefined : kind;
}

function ownKind({ attributes }: Span): 'model' | 'tool' | undefined {
  return KIND_NAMES.map((name) => KINDS[String(attributes.get(name))]).find((kind) => kind !== undefined);
}

/** What is said by a span, or by an event in it that tells the content of a call. */
function look({ attributes, events }: Span, what: keyof typeof NAMES): unknown {
  const told = [attributes, ...events.map((event) => event.attributes)];
  return NAMES[what].map((name) => told.map((those) => those.get(name)).find(isSaid)).find(isSaid);
}

function isSaid(value: unknown): boolean {
  return value !== undefined && value !== '';
}

/** The same, else what the spans say that it is part of, else its service. */
function lookUp(span: Span, what: 'session' | 'agent'): unknown {
  let at: Span | undefined = span;
  for (let parents = 0; at !== undefined && parents < MAX_PARENTS; parents++, at = at.parent) {
    const found = look(at, what);
    if (found !== undefined) return found;
  }
  return NAMES[what].map((name) => span.service.get(name)).find(isSaid);
}

function toRun(name: string, spans: readonly Span[]): ImportedRun {
  const said = spans.map((span) => lookUp(span, 'agent')).find(isSaid) ?? 'agent';
  const agent = typeof said === 'object' ? JSON.stringify(said) : String(said);
  const conversation = new Conversation(agent);
  const steps = spans.map((span) =>
    kindOf(span) === 'model' ? conversation.takeModel(span) : conversation.takeTool(span),
  );
  const traceIds = [...new Set(spans.map(({ traceId }) => traceId))];
  return { format: 'otlp', names: [name], agent, state: { trace: { traceIds } }, steps };
}

/** Puts the messages of a conversation together: every model call repeats what came before, and a tool's result is told twice. */
class Conversation {
  readonly #agent: string;
  /** How often a message was there. */
  readonly #known = new Map<string, number>();
  /** The tools of calls, by the ids of these. */
  readonly #called = new Map<string, string>();
  readonly #answered = new Set<string>();

  constructor(agent: string) {
    this.#agent = agent;
  }

  takeModel(span: Span): ImportedStep {
    const given = [...readInstructions(look(span, 'instructions')), ...readInput(span)];
    const counts = new Map<string, number>();
    const fresh = given.filter((message) => {
      const key = keyOf(message);
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
    const toolCallId = String(look(span, 'callId') ?? this.#findOpen(toolName) ?? `span-${this.#called.size + 1}`);
    const call = { type: 'tool-call', toolCallId, toolName, input: parseText(look(span, 'arguments')) ?? {} };
    const result = { type: 'tool-result', toolCallId, toolName, output: readOutput(span) };
    return this.#keep(span, [
      ...(this.#called.has(toolCallId) ? [] : [{ role: 'assistant' as const, name: this.#agent, content: [call] }]),
      ...(this.#answered.has(toolCallId) ? [] : [{ role: 'tool' as const, content: [result] }]),
    ]);
  }

  /** The first call of a tool that has no result yet: many do not say which call a result is of. */
  #findOpen(toolName: string): string | undefined {
    const open = [...this.#called].find(([id, name]) => name === toolName && !this.#answered.has(id));
    return open?.[0];
  }

  #isAnswered({ role, content }: ImportedMessage): boolean {
    return (
      role === 'tool' &&
      typeof content !== 'string' &&
      content.every(({ toolCallId: id }) => this.#answered.has(String(id)))
    );
  }

  #keep({ startMs }: Span, messages: readonly ImportedMessage[]): ImportedStep {
    for (const message of messages) {
      const key = keyOf(message);
      this.#known.set(key, (this.#known.get(key) ?? 0) + 1);
      for (const { type, toolCallId, toolName } of partsOf(message)) {
        if (type === 'tool-call') this.#called.set(String(toolCallId), String(toolName));
        if (type === 'tool-result') this.#answered.add(String(toolCallId));
      }
    }
    return { atMs: startMs, messages };
  }
}

function readOutput(span: Span): MessagePart {
  const value = span.error ?? parseText(look(span, 'result')) ?? null;
  return { type: `${span.error === undefined ? '' : 'error-'}${typeof value === 'string' ? 'text' : 'json'}`, value };
}

function partsOf({ content }: ImportedMessage): readonly MessagePart[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : content;
}

/** What a message is known by: the same words, in whatever form a call repeats them. */
function keyOf(message: ImportedMessage): string {
  return JSON.stringify([message.role, partsOf(message)]);
}

function readInstructions(found: unknown): ImportedMessage[] {
  const parts = parseText(found);
  return parts === undefined
    ? []
    : readMessages([{ role: 'system', parts: Array.isArray(parts) ? parts : [parts] }], 'system');
}

/** What a model was asked. */
function readInput(span: Span): ImportedMessage[] {
  return firstFilled([
    () => readMessages(look(span, 'messages'), 'user'),
    () => readNumbered(span.attributes, 'gen_ai.prompt.', 'user'),
    () => readNumbered(span.attributes, 'llm.input_messages.', 'user'),
    () => readEvents(span, (name) => name !== CHOICE),
    () => readMessages(look(span, 'input'), 'user'),
  ]);
}

/** What a model answered; why it did not, if it failed. */
function readAnswer(span: Span): ImportedMessage[] {
  if (span.error !== undefined) return [{ role: 'assistant', content: `The model call failed: ${span.error}` }];
  return firstFilled([
    () => readMessages(look(span, 'answers'), 'assistant'),
    () => readNumbered(span.attributes, 'gen_ai.completion.', 'assistant'),
    () => readNumbered(span.attributes, 'llm.output_messages.', 'assistant'),
    () => readEvents(span, (name) => name === CHOICE),
    () => readMessages(look(span, 'output'), 'assistant'),
    () => readParts(look(span, 'text'), parseText(look(span, 'calls'))),
  ]);
}

const CHOICE = 'gen_ai.choice';

function readEvents({ events }: Span, isWanted: (name: string) => boolean): ImportedMessage[] {
  const wanted = events.filter(({ name }) => isWanted(name));
  return wanted.flatMap(({ name, attributes }) => readEvent(name, attributes) ?? []);
}

function readParts(text: unknown, calls: unknown): ImportedMessage[] {
  const parts = [...(typeof text === 'string' ? [{ type: 'text', text }] : []), ...(Array.isArray(calls) ? calls : [])];
  return readMessages(parts.length === 0 ? [] : [{ role: 'assistant', content: parts }], 'assistant');
}

function firstFilled(readers: readonly (() => ImportedMessage[])[]): ImportedMessage[] {
  for (const read of readers) {
    const found = read();
    if (found.length > 0) return found;
  }
  return [];
}
