/** A tool call of a script. Input that is a text is sent as it is, so that a script can send what is no JSON. */
type ScriptedToolCall = { readonly id?: string; readonly name: string; readonly input: unknown };

/** A reply of a script; a text alone stands for `{ text }`. */
export type ScriptedReply = {
  readonly text?: string;
  /** How the text comes when it is streamed; word by word if absent. */
  readonly chunks?: readonly string[];
  readonly toolCalls?: readonly ScriptedToolCall[];
  /** What a provider wants back verbatim with the next request. */
  readonly reasoning?: { readonly text: string; readonly encrypted?: string };
  readonly finishReason?: string;
  readonly usage?: { readonly inputTokens: number; readonly outputTokens: number };
  /** How long it takes. */
  readonly delayMs?: number;
};

/** What can go wrong. */
export type ScriptedFailure =
  /** The server says no. */
  | { readonly status: number; readonly message?: string; readonly retryAfterMs?: number }
  /** There is never an answer. */
  | { readonly hang: true }
  /** After this text the connection breaks; with `stream` it ends in good order, but too early. */
  | { readonly cut: 'connection' | 'stream'; readonly text?: string }
  /** Status 200, and nothing that anybody could read. */
  | { readonly garbage: string };

/** What a scripted model or server does about one request. */
export type ScriptedAnswer = string | ScriptedReply | ScriptedFailure;

/** One answer for each request in order, or a function that finds the answer. Requests are counted from 0. */
export type Script<Request> =
  | readonly ScriptedAnswer[]
  | ((request: Request, index: number) => ScriptedAnswer | Promise<ScriptedAnswer>);

/** Whether an answer is a failure. */
export function isFailure(answer: ScriptedReply | ScriptedFailure): answer is ScriptedFailure {
  return 'status' in answer || 'hang' in answer || 'cut' in answer || 'garbage' in answer;
}

/** The answer to one request; undefined if a list has come to its end. */
export async function findAnswer<Request>(
  script: Script<Request>,
  request: Request,
  index: number,
): Promise<ScriptedReply | ScriptedFailure | undefined> {
  const answer = typeof script === 'function' ? await script(request, index) : script[index];
  return typeof answer === 'string' ? { text: answer } : answer;
}

/** The pieces in which a text is streamed. */
export function splitText({ text = '', chunks }: Pick<ScriptedReply, 'text' | 'chunks'>): readonly string[] {
  return chunks ?? text.match(/\S+\s*|\s+/g) ?? [];
}

/** The arguments of a tool call as a provider sends them. */
export function formatInput(input: unknown): string {
  return typeof input === 'string' ? input : (JSON.stringify(input) ?? '{}');
}

/** The id of a tool call; the same in every run. */
export function callId({ id }: ScriptedToolCall, requestIndex: number, at: number): string {
  return id ?? `call_${requestIndex}_${at}`;
}

/** How a reply ended, in OpenAI's words. */
export function finishReasonOf({ finishReason, toolCalls = [] }: ScriptedReply): string {
  return finishReason ?? (toolCalls.length > 0 ? 'tool_calls' : 'stop');
}

/** The tokens of a reply: those of the script, or about a quarter of the characters. */
export function usageOf(reply: ScriptedReply, request: unknown): { inputTokens: number; outputTokens: number } {
  if (reply.usage !== undefined) return reply.usage;
  const answered = `${reply.text ?? (reply.chunks ?? []).join('')}${(reply.toolCalls ?? []).map(({ input }) => formatInput(input)).join('')}`;
  return { inputTokens: quarter(JSON.stringify(request) ?? ''), outputTokens: quarter(answered) };
}

function quarter(text: string): number {
  return Math.ceil(text.length / 4);
}
