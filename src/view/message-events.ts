import { fieldsOf } from '../manager/revision/transcript.ts';
import type { DriftEvent } from '../runtime/drift/step/drift-event.ts';
import { readMessage } from './message-text.ts';
import { type MessageCall, readParts } from './messages.ts';

const ROLES: Readonly<Record<string, string>> = { human: 'user', ai: 'agent', chat: 'agent' };

/** A message as what a drift detector watches: the calls of its turn, their results, and what was said. */
export function toEvents(message: unknown, time: Date): DriftEvent[] {
  const read = readMessage(message);
  if (read === undefined) return [];
  const { speaker: agent, text, calls, results } = readParts(message);
  const at = time.getTime();
  const { role = read.speaker.split(' ')[0] } = fieldsOf(message);
  const said: DriftEvent[] =
    text === '' ? [] : [{ kind: 'message', agent, text, at, role: ROLES[String(role)] ?? String(role) }];
  return [
    ...calls.map((call): DriftEvent => ({ kind: 'call', agent, ...named(call), input: call.input, at })),
    ...results.map((result): DriftEvent => {
      const { output, isError } = result;
      return { kind: 'result', ...named(result), output, isError, at };
    }),
    ...said,
  ];
}

function named({ id, name }: MessageCall): { readonly name: string; readonly callId?: string } {
  return { name, ...(id !== undefined && { callId: id }) };
}
