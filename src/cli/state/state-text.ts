import { channelsOf, fieldsOf } from '../../manager/revision/transcript.ts';
import { toJsonForm } from '../../view/json-form.ts';
import { type ChatMessage, findMessages } from '../../view/message-text.ts';
import { viewOf } from '../../view/state-view.ts';
import type { Style } from '../terminal/style.ts';

/** A state for people: what else it holds as JSON, then its messages as a chat. */
export function formatState(state: unknown, style: Style): string {
  const messages = findMessages(state);
  const { order, chat, fleet } = fieldsOf(state);
  // What else a group chat or a fleet holds is a lot.
  if (messages !== undefined && Array.isArray(order) && (chat ?? fleet) !== undefined)
    return [`agents ${order.join(', ')}`, ...formatLedgers(state, style), formatChat(messages, style)].join('\n\n');
  const rest = withoutMessages(state, messages !== undefined);
  if (messages === undefined) return formatJson(rest);
  const others = Object.keys(fieldsOf(rest)).length === 0 ? '' : `${formatJson(rest)}\n`;
  return others + formatChat(messages, style);
}

/** All of a state but what is shown as a chat. Of a thread of LangGraph: the channels that its graph declared. */
function withoutMessages(state: unknown, isChat: boolean): unknown {
  const channels = channelsOf(state);
  if (channels === undefined && !isChat) return state;
  const { isFolded } = viewOf(state);
  const fields = Object.entries(channels ?? fieldsOf(state)).filter(
    ([name]) => !(isChat && name === 'messages') && !(channels !== undefined && isFolded(`$.channel_values["${name}`)),
  );
  return Object.fromEntries(fields);
}

/** What the orchestrator of a fleet knows and plans, and what it thinks of the last round. */
function formatLedgers(state: unknown, style: Style): string[] {
  const { taskLedger, progressLedger } = fieldsOf(fieldsOf(state).fleet);
  const entries = [
    ...Object.entries(fieldsOf(taskLedger)).map(([name, text]): [string, string] => [name, String(text)]),
    ...Object.entries(fieldsOf(progressLedger)).map(([name, entry]): [string, string] => [name, formatEntry(entry)]),
  ];
  return entries.length === 0
    ? []
    : [entries.map(([name, text]) => `${style.dim(name.replaceAll('_', ' '))} ${indent(text)}`).join('\n')];
}

function formatEntry(entry: unknown): string {
  const { answer, reason } = fieldsOf(entry);
  return `${String(answer)}${typeof reason === 'string' && reason !== '' ? ` (${reason})` : ''}`;
}

function formatJson(value: unknown): string {
  return `${JSON.stringify(toJsonForm(value) ?? null, undefined, 2)}\n`;
}

function formatChat(messages: readonly ChatMessage[], style: Style): string {
  return messages
    .map(({ speaker, text }, at) => `${style.dim(`[${at}]`)} ${style.bold(speaker)}: ${indent(text)}\n`)
    .join('');
}

function indent(text: string): string {
  return text.replaceAll('\n', '\n    ');
}
