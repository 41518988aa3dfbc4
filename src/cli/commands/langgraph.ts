import { UnsupportedError } from '../../core/errors.ts';
import type { Command } from '../command.ts';
import type { ExitCode } from '../exit-code.ts';
import { createTerminal } from '../langgraph/terminal.ts';

/** Moves threads from and to LangGraph's own savers. */
export const command: Command = {
  arguments: '[words...]',
  isPassedOn: true,
  examples: [
    ['savestate langgraph import checkpoints.db --to threads.db', 'from a database of SqliteSaver'],
    ['savestate langgraph --help', 'everything it takes'],
  ],
  run: async (context, input) => {
    const { runCommand } = await import('../langgraph/run-command.ts').catch((cause: unknown) => {
      throw new UnsupportedError('LangGraph is not installed here: npm install @langchain/langgraph @langchain/core', {
        cause,
      });
    });
    return (await runCommand(input.words, createTerminal(process), context.signal)) as ExitCode;
  },
};
