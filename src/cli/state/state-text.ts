import { isPlainObject } from '../../core/options.ts';
import { formatPath, type PathStep } from '../../core/path.ts';
import { formatSafeJson } from '../../core/safe-json.ts';
import { channelsOf, fieldsOf } from '../../manager/revision/transcript.ts';
import { toJsonForm } from '../../view/json-form.ts';
import { type ChatMessage, findMessages } from '../../view/messages.ts';
import { viewOf } from '../../view/state-view.ts';
import { cutLongLines } from '../terminal/format.ts';
import type { Style } from '../terminal/style.ts';

/** A state for people: what else it holds as JSON, then its messages as a chat. */
export function formatState(state: unknown, style: Style): string {
  const messages = findMessages(state);
  const { order, chat, fleet } = fieldsOf(state);
  // What else a group chat or a fleet holds is a lot.
  if (messages !== undefined && Array.isArray(order) && (chat ?? fleet) !== undefined)
    return [`agents ${order.join(', ')}`, ...formatLedgers(state, style), formatChat(messages, style)].join('\n\n');
  const rest = withoutFolded(channelsOf(state) ?? state, {
    path: channelsOf(state) === undefined ? [] : ['channel_values'],
    isLeftOut: createFilter(state, messages !== undefined),
  });
  if (messages === undefined) return formatJson(rest);
  const others = Object.keys(fieldsOf(rest)).length === 0 ? '' : `${formatJson(rest)}\n`;
  return others + formatChat(messages, style);
}

/** What is shown as a chat, and what only the program needs. */
function createFilter(state: unknown, isChat: boolean): (path: string) => boolean {
  const { transcript, talk = [transcript], isFolded } = viewOf(state);
  return (path) => isFolded(path) || (isChat && talk.includes(path));
}

type Folding = { readonly path: readonly PathStep[]; readonly isLeftOut: (path: string) => boolean };

/** A value without what is left out of it, as JSON for people. */
function withoutFolded(value: unknown, { path, isLeftOut }: Folding): unknown {
  const inside = (child: unknown, step: PathStep) => withoutFolded(child, { path: [...path, step], isLeftOut });
  if (Array.isArray(value)) return value.map(inside);
  if (!isPlainObject(value)) return toJsonForm(value);
  const fields = Object.entries(value).filter(([name]) => !isLeftOut(formatPath([...path, name])));
  return Object.fromEntries(fields.map(([name, child]) => [name, inside(child, name)]));
}

/** What an operation of a fleet that needs approval would be done with, as JSON. The name that a model gives a call says nothing. */
export function inputOf({ input }: { readonly input?: unknown }): unknown {
  const { callId, input: given } = fieldsOf(input);
  return toJsonForm(callId === undefined ? input : given) ?? null;
}

/** The same on one line, cut where nobody reads it any more. */
export function formatInput(input: unknown): string {
  return cutLongLines(formatSafeJson(input));
}

/** What a fleet asks people now. */
function formatRequests(requests: unknown): [string, string][] {
  return Object.values(fieldsOf(requests)).flatMap((request): [string, string][] => {
    const { kind, message } = fieldsOf(request);
    const asked: [string, string] = ['asks', String(message)];
    return kind === 'operation' ? [asked, ['with', formatInput(inputOf(fieldsOf(request)))]] : [asked];
  });
}

/** What the orchestrator of a fleet knows and plans, what it thinks of the last round, what it asks, and how it ended. */
function formatLedgers(state: unknown, style: Style): string[] {
  const { taskLedger, progressLedger, requests, end } = fieldsOf(fieldsOf(state).fleet);
  const entries = [
    ...Object.entries(fieldsOf(taskLedger)).map(([name, text]): [string, string] => [name, String(text)]),
    ...Object.entries(fieldsOf(progressLedger)).map(([name, entry]): [string, string] => [name, formatEntry(entry)]),
    ...formatRequests(requests),
    ...Object.entries(fieldsOf(end)).map(([name, text]): [string, string] => [
      name === 'answer' ? name : `end_${name}`,
      String(text),
    ]),
  ];
  const width = Math.max(0, ...entries.map(([name]) => name.length)) + 2;
  const lines = entries.map(
    ([name, text]) =>
      style.dim(name.replaceAll('_', ' ').padEnd(width)) + text.replaceAll('\n', `\n${' '.repeat(width)}`),
  );
  return lines.length === 0 ? [] : [lines.join('\n')];
}

function formatEntry(entry: unknown): string {
  const { answer, reason } = fieldsOf(entry);
  return `${String(answer)}${typeof reason === 'string' && reason !== '' ? ` (${reason})` : ''}`;
}

/** A value as JSON for people. */
export function formatJson(value: unknown): string {
  return `${formatSafeJson(toJsonForm(value) ?? null, 2)}\n`;
}

function formatChat(messages: readonly ChatMessage[], style: Style): string {
  if (messages.length === 0) return 'There are no messages yet.\n';
  return messages
    .map(
      ({ speaker, text }, at) =>
        `${style.dim(`[${at}]`)} ${style.bold(speaker)}: ${text.replaceAll(/\n(?!\n|$)/g, '\n    ')}\n`,
    )
    .join('');
}
