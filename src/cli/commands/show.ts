import type { Checkpoint } from '../../core/checkpoint.ts';
import { formatPath } from '../../core/path.ts';
import type { Command } from '../command.ts';
import type { Context } from '../context.ts';
import { resolveRevision } from '../revision/resolve-revision.ts';
import { openAt, parseStatePath } from '../revision/state-path.ts';
import { formatDetails, readNames, toOutput } from '../state/checkpoint-text.ts';
import { toJsonForm } from '../state/json-form.ts';
import { type ChatMessage, findHeldMessages, findMessages } from '../state/message-text.ts';
import type { Style } from '../terminal/style.ts';

/** Shows one checkpoint. */
export const command: Command = {
  arguments: '[revision]',
  options: [['--header', 'without the state']],
  details:
    'A revision may be followed by a colon and a path into its state. Dates, maps and the like are shown as texts and lists. Of teams and fleets the conversation is shown; --json has everything.',
  examples: [
    ['savestate show', 'the head of the current branch'],
    ['savestate show @~3', 'three checkpoints before it'],
    ['savestate show v1:messages[-1].content', 'the last message at the tag v1'],
    [`savestate show '@:$.plan' --json`, 'a value, for a script'],
  ],
  run: async (context, input) => {
    const [revision, path] = splitPath(input.word(0) ?? '@');
    const workspace = await context.workspace();
    const checkpoint = await resolveRevision(workspace, revision);
    if (path !== undefined) return showValue(context, checkpoint, path);
    const output = toOutput(checkpoint, await readNames(workspace, checkpoint.sessionId));
    const state = input.flag('header') ? undefined : await workspace.manager.load(checkpoint.id);
    const { style } = context.terminal;
    await context.answer({ checkpoint: output, state: toJsonForm(state) ?? null }, () => {
      const details = formatDetails(output, style);
      return input.flag('header') ? details : `${details}\n${formatState(state, style)}`;
    });
    return undefined;
  },
};

/** Cuts `revision:path` in two; the path is undefined if there is none. */
export function splitPath(text: string): [revision: string, path: string | undefined] {
  const inTime = text.lastIndexOf('}'); // a time may have colons of its own
  const at = text.indexOf(':', Math.max(0, inTime));
  return at < 0 ? [text, undefined] : [text.slice(0, at) || '@', text.slice(at + 1)];
}

async function showValue(context: Context, checkpoint: Checkpoint, text: string): Promise<undefined> {
  const { manager } = await context.workspace();
  const path = parseStatePath(text);
  const value = toJsonForm(openAt(await manager.load(checkpoint.id), path)) ?? null;
  await context.answer({ checkpoint: toOutput(checkpoint), path: formatPath(path), value }, () =>
    typeof value === 'string' ? `${value}\n` : `${JSON.stringify(value, undefined, 2)}\n`,
  );
  return undefined;
}

/** A state for people: what else it holds as JSON, then its messages as a chat. */
function formatState(state: unknown, style: Style): string {
  const held = findHeldMessages(state);
  if (held !== undefined) return `agents ${held.agents.join(', ')}\n\n${formatChat(held.messages, style)}`;
  const messages = findMessages(state);
  if (messages === undefined) return `${JSON.stringify(toJsonForm(state) ?? null, undefined, 2)}\n`;
  const { messages: _, ...rest } = state as { messages: unknown };
  const others = Object.keys(rest).length === 0 ? '' : `${JSON.stringify(toJsonForm(rest), undefined, 2)}\n\n`;
  return others + formatChat(messages, style);
}

function formatChat(messages: readonly ChatMessage[], style: Style): string {
  return messages
    .map(({ speaker, text }, at) => `${style.dim(`[${at}]`)} ${style.bold(speaker)}: ${indent(text)}\n`)
    .join('');
}

function indent(text: string): string {
  return text.replaceAll('\n', '\n    ');
}
