import { createTerminal } from './langgraph/terminal.ts';

const terminal = createTerminal(process);

try {
  const { runCommand } = await import('./langgraph/run-command.ts');
  const stop = new AbortController();
  process.once('SIGINT', () => stop.abort());
  process.exitCode = await runCommand(process.argv.slice(2), terminal, stop.signal);
} catch (error) {
  if (!(error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND')) throw error;
  terminal.note(`${error.message}\nInstall LangGraph here first: npm install @langchain/langgraph @langchain/core\n`);
  process.exitCode = 1;
}
