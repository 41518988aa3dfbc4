import { closing } from '../../base/closing.ts';
import type { Command } from '../../base/command.ts';
import { withStorage } from '../../server/run-server.ts';

/** Answers models over MCP. */
export const command: Command = {
  arguments: '[storage]',
  options: [
    ['--allow-changes', 'include tools that make changes: answer, fork, rewind, tag'],
    ['--memory <place>', 'long-term memory: a file, or postgres://...'],
  ],
  details: `For programs that speak the Model Context Protocol: they start this command and use its standard input and output.
It needs the package @modelcontextprotocol/server. Tools, resources and prompts are in docs/MCP.md. Runs until the program ends it.`,
  examples: [
    ['savestate mcp', 'the storage of this project, read only'],
    ['savestate mcp agent.db --allow-changes', 'another one; models may fork, rewind, tag and answer'],
  ],
  run: async (given, input) => {
    const context = withStorage(given, input.word(0));
    const { createMcp } = await import('../../../server/mcp/mcp-server.ts');
    const { findMemory } = await import('../../memory/open-memory.ts');
    const { manager } = await context.open();
    await closing(await findMemory(context, { named: input.text('memory'), manager }), async (memory) => {
      const mcp = await createMcp(manager, { memory, allowChanges: input.flag('allowChanges') });
      await mcp.serve({ stdin: process.stdin, stdout: process.stdout, signal: context.signal });
    });
  },
};
