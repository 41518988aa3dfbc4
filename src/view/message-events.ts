import type { DriftEvent } from '../runtime/drift/step/drift-event.ts';
import { type MessageCall, readParts, roleOf } from './messages.ts';

const ROLES: Readonly<Record<string, string>> = { human: 'user', ai: 'agent', chat: 'agent' };

/** A message as what a drift detector watches: the calls of its turn, their results, and what was said. */
export function toEvents(message: unknown, time: Date): DriftEvent[] {
  const role = roleOf(message);
  if (role === undefined) return [];
  const { speaker: agent, text, calls, results } = readParts(message);
  const at = time.getTime();
  const said: DriftEvent[] = text === '' ? [] : [{ kind: 'message', agent, text, at, role: ROLES[role] ?? role }];
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
