import type { ServedReply, ServedStream } from './chat-completion-format.ts';
import { callId, formatInput, type ScriptedReply, splitText, usageOf } from './scripted-answer.ts';

type Item = { readonly type: string; readonly id: string } & Readonly<Record<string, unknown>>;

/** A reply as `POST /responses` gives it at once. */
export function formatResponse(served: ServedReply): object {
  return { ...headOf(served), ...endOf(served), output: itemsOf(served) };
}

/** The same as it is streamed, event by event. */
export function formatResponseEvents(served: ServedReply): ServedStream {
  const response = { ...headOf(served), ...endOf(served) };
  const events = [
    { type: 'response.created', response: headOf(served) },
    ...itemsOf(served).flatMap((item, at) => streamItem(item, at, served.reply)),
  ];
  const end = { type: isCutShort(served.reply) ? 'response.incomplete' : 'response.completed', response };
  return { events: events.map(toEvent), ending: [toEvent(end, events.length)] };
}

function toEvent(event: { readonly type: string }, at: number): string {
  return `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number: at })}\n\n`;
}

function headOf({ index, body }: ServedReply): object {
  return { id: `resp_${index}`, object: 'response', created_at: 0, model: body.model ?? 'scripted' };
}

function endOf({ reply, body }: ServedReply): object {
  const { inputTokens, outputTokens } = usageOf(reply, body);
  return {
    status: isCutShort(reply) ? 'incomplete' : 'completed',
    incomplete_details: isCutShort(reply) ? { reason: 'max_output_tokens' } : null,
    usage: { input_tokens: inputTokens, output_tokens: outputTokens, total_tokens: inputTokens + outputTokens },
  };
}

function isCutShort({ finishReason }: ScriptedReply): boolean {
  return finishReason === 'length';
}

function itemsOf({ reply, index }: ServedReply): Item[] {
  const { reasoning, toolCalls = [] } = reply;
  const text = reply.text ?? splitText(reply).join('');
  const summary = [{ type: 'summary_text', text: reasoning?.text }];
  const thought = { type: 'reasoning', id: `rs_${index}`, summary, encrypted_content: reasoning?.encrypted ?? null };
  const content = [{ type: 'output_text', text, annotations: [] }];
  const message = { type: 'message', id: `msg_${index}`, role: 'assistant', status: 'completed', content };
  return [
    ...(reasoning === undefined ? [] : [thought]),
    ...(text === '' ? [] : [message]),
    ...toolCalls.map((call, at) => ({
      type: 'function_call',
      id: `fc_${index}_${at}`,
      call_id: callId(call, index, at),
      name: call.name,
      arguments: formatInput(call.input),
      status: 'completed',
    })),
  ];
}

type Event = { readonly type: string } & Readonly<Record<string, unknown>>;

function streamItem(item: Item, at: number, reply: ScriptedReply): Event[] {
  const place = { output_index: at, item_id: item.id };
  return [
    { type: 'response.output_item.added', output_index: at, item: unfilled(item) },
    ...fillItem(item, place, reply),
    { type: 'response.output_item.done', output_index: at, item },
  ];
}

function fillItem(item: Item, place: object, reply: ScriptedReply): Event[] {
  switch (item.type) {
    case 'message':
      return splitText(reply).map((delta) => ({
        type: 'response.output_text.delta',
        ...place,
        content_index: 0,
        delta,
      }));
    case 'function_call':
      return [{ type: 'response.function_call_arguments.delta', ...place, delta: item.arguments }];
    default: {
      const summary = { ...place, summary_index: 0 };
      return [
        { type: 'response.reasoning_summary_part.added', ...summary },
        { type: 'response.reasoning_summary_text.delta', ...summary, delta: reply.reasoning?.text ?? '' },
        { type: 'response.reasoning_summary_part.done', ...summary },
      ];
    }
  }
}

/** An item as it is announced: there, and empty. */
function unfilled(item: Item): Item {
  if (item.type === 'message') return { ...item, content: [], status: 'in_progress' };
  return item.type === 'function_call' ? { ...item, arguments: '', status: 'in_progress' } : { ...item, summary: [] };
}
