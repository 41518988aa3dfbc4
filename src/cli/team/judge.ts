import { type ChildProcess, spawn } from 'node:child_process';
import { InvalidInputError } from '../../core/errors.ts';
import type { ChatRunResult } from '../../runtime/chat/chat-run.ts';
import type { Judge } from '../../runtime/repair/trial-options.ts';
import type { Context } from '../base/context.ts';

/** How runs are judged: by their last words, or by a command. */
export type JudgeWords = { readonly text: string | undefined; readonly command: string | undefined };

/** The judge that was asked for. */
export function createJudge(context: Context, { text, command }: JudgeWords): Judge {
  if ((text === undefined) === (command === undefined))
    throw new InvalidInputError('Say how runs are judged: --judge-text <regex>, or --judge-command <command>.');
  return text === undefined ? judgeByCommand(context, command ?? '') : judgeByText(text);
}

function judgeByText(source: string): Judge {
  let pattern: RegExp;
  try {
    pattern = new RegExp(source);
  } catch (cause) {
    throw new InvalidInputError(`--judge-text is no regular expression: ${source}`, { cause });
  }
  return ({ messages }) => pattern.test(messages.at(-1)?.content ?? '');
}

const NOT_FOUND = 127;

/** It gets the messages as JSON on its standard input, and does not learn which kind of run it judges. */
function judgeByCommand({ env, folder }: Context, command: string): Judge {
  return (result, { signal }) =>
    new Promise((resolve, reject) => {
      // What it prints is no part of our answer, so it goes where notes go.
      const child = spawn('sh', ['-c', command], {
        cwd: folder,
        env: { ...env },
        stdio: ['pipe', 2, 2],
        detached: true,
      });
      const stop = (): void => {
        endGroup(child);
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', stop, { once: true });
      child.stdin?.on('error', () => undefined); // it need not read the messages
      child.once('error', reject);
      child.once('close', (code, killedBy) => {
        signal?.removeEventListener('abort', stop);
        if (code === null || code === NOT_FOUND)
          reject(new Error(`The command "${command}" could not judge (${killedBy ?? `exit code ${NOT_FOUND}`}).`));
        else resolve(code === 0);
      });
      child.stdin?.end(`${JSON.stringify(toPlainMessages(result))}\n`);
    });
}

/** Ends a command with everything it started, which would hold on to the terminal otherwise. */
function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGTERM');
  } catch {
    // it has ended already
  }
}

function toPlainMessages({ messages }: ChatRunResult): readonly { name: string; content: string }[] {
  return messages.map(({ name, content }) => ({ name, content }));
}
