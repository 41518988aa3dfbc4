import { callId, finishReasonOf, formatInput, type ScriptedReply, splitText, usageOf } from './scripted-answer.ts';

/** A reply of a server, and the request it answers. */
export type ServedReply = {
  readonly reply: ScriptedReply;
  readonly index: number;
  readonly body: Readonly<Record<string, unknown>>;
};

/** A streamed reply: its events, and those that tell that it is complete. */
export type ServedStream = { readonly events: readonly string[]; readonly ending: readonly string[] };

/** A reply as `POST /chat/completions` gives it at once. */
export function formatChatCompletion({ reply, index, body }: ServedReply): object {
  const { text = splitText(reply).join(''), toolCalls = [], reasoning } = reply;
  const calls = toolCalls.map((call, at) => ({
    id: callId(call, index, at),
    type: 'function',
    function: { name: call.name, arguments: formatInput(call.input) },
  }));
  const message = {
    role: 'assistant',
    content: text === '' && calls.length > 0 ? null : text,
    ...(reasoning !== undefined && { reasoning_content: reasoning.text }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
  return {
    ...headOf(index, body),
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: finishReasonOf(reply) }],
    usage: formatUsage(reply, body),
  };
}

/** The same as it is streamed, chunk by chunk. */
export function formatChatChunks({ reply, index, body }: ServedReply): ServedStream {
  const head = { ...headOf(index, body), object: 'chat.completion.chunk' };
  const chunk = (delta: object, finishReason: string | null = null) =>
    toEvent({ ...head, choices: [{ index: 0, delta, finish_reason: finishReason }] });
  const { reasoning, toolCalls = [] } = reply;
  const events = [
    chunk({ role: 'assistant', content: '' }),
    ...(reasoning === undefined ? [] : [chunk({ reasoning_content: reasoning.text })]),
    ...splitText(reply).map((content) => chunk({ content })),
    ...toolCalls.flatMap((call, at) => {
      const start = { index: at, id: callId(call, index, at), type: 'function' };
      return [
        chunk({ tool_calls: [{ ...start, function: { name: call.name, arguments: '' } }] }),
        ...halves(formatInput(call.input)).map((piece) =>
          chunk({ tool_calls: [{ index: at, function: { arguments: piece } }] }),
        ),
      ];
    }),
  ];
  const usage = wantsUsage(body) ? [toEvent({ ...head, choices: [], usage: formatUsage(reply, body) })] : [];
  return { events, ending: [chunk({}, finishReasonOf(reply)), ...usage, 'data: [DONE]\n\n'] };
}

function headOf(index: number, body: ServedReply['body']): object {
  return { id: `chatcmpl-${index}`, created: 0, model: body.model ?? 'scripted' };
}

function formatUsage(reply: ScriptedReply, body: unknown): object {
  const { inputTokens, outputTokens } = usageOf(reply, body);
  return { prompt_tokens: inputTokens, completion_tokens: outputTokens, total_tokens: inputTokens + outputTokens };
}

function wantsUsage({ stream_options: options }: ServedReply['body']): boolean {
  return (
    typeof options === 'object' && options !== null && 'include_usage' in options && options.include_usage === true
  );
}

function halves(text: string): string[] {
  const middle = Math.ceil(text.length / 2);
  return [text.slice(0, middle), text.slice(middle)].filter((piece) => piece !== '');
}

function toEvent(value: object): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}
