import { isRecord } from '../../core/options.ts';
import type { PathStep } from '../../core/path.ts';

type Fields = Readonly<Record<string, unknown>>;
type Items = { readonly items: readonly unknown[]; readonly bodies: readonly unknown[]; readonly extra?: unknown };

/** Where messages are that were read from items. */
const places = new WeakMap<object, readonly PathStep[]>();

/** Where a message of `readItems` is: what has its words as `content`, or, if they are no plain string, where these are. */
export function placeOfMessage(message: unknown): readonly PathStep[] | undefined {
  return isRecord(message) ? places.get(message) : undefined;
}

/** Whether a state is a transcript of an adapter (`src/adapter/transcript`): items of another framework, their large fields apart. */
export function isTranscript(state: unknown): state is Items {
  return (
    isRecord(state) &&
    typeof state.transcript === 'string' &&
    Array.isArray(state.items) &&
    Array.isArray(state.bodies) &&
    typeof state.items[0] !== 'string' // a stream, part by part
  );
}

/** The conversation in a transcript; of a chat with branches the active one. Entries that say nothing are left out. */
export function readItems({ items, bodies, extra }: Items): unknown[] {
  const { leaf } = isRecord(extra) ? extra : {};
  const whole = [...items].map((item, at) => joinItem(item, bodies[at]));
  const order = typeof leaf === 'string' ? pathTo(whole, leaf) : [...whole.keys()];
  return order.flatMap((at) => {
    const found = readItem(whole[at]);
    if (found === undefined) return [];
    const { message, place } = found;
    const [field = ''] = place;
    places.set(message, [
      isRecord(bodies[at]) && field in bodies[at] ? 'bodies' : 'items',
      at,
      ...wordsAt(message, place),
    ]);
    return [message];
  });
}

/** The path without `content` if that is a string. */
function wordsAt({ content }: Fields, place: readonly string[]): readonly string[] {
  return typeof content === 'string' ? place.slice(0, -1) : place;
}

/** An item with its large fields. */
export function joinItem(item: unknown, body: unknown): unknown {
  return isRecord(item) && isRecord(body) ? { ...item, ...body } : item;
}

type Read = { readonly message: Fields /** What of the item says it. */; readonly place: readonly string[] };

/** Reads an entry of Claude, an item of OpenAI Agents or a UI message of the AI SDK as a message; undefined if it is none. */
export function readItem(item: unknown): Read | undefined {
  if (!isRecord(item)) return undefined;
  const { message, parts, role } = item;
  if (Array.isArray(parts)) return { message: { role, content: parts.flatMap(readUiPart) }, place: ['parts'] };
  if (isRecord(message)) return typeof message.role === 'string' ? readEntry(item, message) : undefined;
  if (typeof role === 'string') return { message: { ...item }, place: ['content'] };
  const part = readCall(item);
  return part && { message: { role: part.type === 'tool-result' ? 'tool' : 'assistant', content: [part] }, place: [] };
}

function readEntry({ timestamp }: Fields, { role, content, model }: Fields): Read {
  const isTimed = typeof timestamp === 'string';
  const extra = typeof model === 'string' && { extra: { model_name: model } };
  return { message: { role, content, ...(isTimed && { timestamp }), ...extra }, place: ['message', 'content'] };
}

/** A call, a result or a thought, each an item of its own. Entries of other kinds are titles, summaries and the like. */
function readCall(item: Fields): Fields | undefined {
  const { type, callId: toolCallId, name: toolName, arguments: input, output, content } = item;
  if (type === 'function_call') return { type: 'tool-call', toolCallId, toolName, input };
  if (type === 'function_call_result') return { type: 'tool-result', toolCallId, toolName, output: textOf(output) };
  if (type === 'reasoning') return { type, text: Array.isArray(content) ? content.map(textOf).join('\n') : '' };
  return typeof type === 'string' && /_call(_result|_output)?$/.test(type) ? item : undefined;
}

/** The words of a part that is nothing else. */
function textOf(part: unknown): unknown {
  return isRecord(part) && typeof part.text === 'string' ? part.text : part;
}

/** A part of a UI message: a tool part is a call and, when it has ended, its result. */
function readUiPart(part: unknown): unknown[] {
  const { type, toolCallId, toolName, input, output, errorText } = isRecord(part) ? part : {};
  if (type === 'step-start') return [];
  if (typeof type !== 'string' || typeof toolCallId !== 'string') return [part];
  const called = { toolCallId, toolName: toolName ?? type.replace(/^tool-/, '') };
  const call = { type: 'tool-call', ...called, input };
  if (output === undefined && errorText === undefined) return [call];
  return [call, { type: 'tool-result', ...called, output: output ?? errorText, isError: errorText !== undefined }];
}

/** The places of the messages that lead to a leaf. */
function pathTo(items: readonly unknown[], leaf: string): number[] {
  const unseen = new Map(items.map((item, at) => [isRecord(item) ? item.id : undefined, at]));
  const path: number[] = [];
  for (let id: unknown = leaf, at = unseen.get(id); at !== undefined; at = unseen.get(id)) {
    unseen.delete(id); // who edits by hand may make a circle
    path.push(at);
    const item = items[at];
    id = isRecord(item) ? item.follows : undefined;
  }
  return path.reverse();
}
