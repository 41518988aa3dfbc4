// A librarian, an analyst and a writer, with real tools, led by an orchestrator.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { AgentRegistry, defineTool, StandardAgent } from 'savestate/agents';
import { Fleet } from 'savestate/fleet';
import { z } from 'zod';
import { createOfflineModel } from './offline-model.mjs';

export const TASK = 'Which river of the library is the longest, and by how much does it beat the shortest?';

const LIBRARY = join(import.meta.dirname, 'library');

/** The tools. `outside` is told of every call before it is answered, as the outside world would be. */
function createTools(folder, outside) {
  const tool = ({ run, ...rest }) =>
    defineTool({
      ...rest,
      run: (input, context) => {
        outside({ tool: rest.name, input, key: context.idempotencyKey, attempt: context.attempt });
        return run(input);
      },
    });
  return {
    list: tool({
      name: 'list_pages',
      description: 'Lists the pages of the library.',
      input: z.object({}),
      run: () => readdirSync(LIBRARY).toSorted().join(', '),
    }),
    read: tool({
      name: 'read_page',
      description: 'Reads a page of the library.',
      input: z.object({ page: z.string().regex(/^\w+$/) }),
      run: ({ page }) => readFileSync(join(LIBRARY, `${page}.txt`), 'utf8').trim(),
    }),
    subtract: tool({
      name: 'subtract',
      description: 'Subtracts a number from another.',
      input: z.object({ from: z.number(), subtrahend: z.number() }),
      run: ({ from, subtrahend }) => from - subtrahend,
    }),
    write: tool({
      name: 'write_report',
      description: 'Writes the report to a file.',
      input: z.object({ text: z.string() }),
      run: ({ text }) => {
        writeFileSync(join(folder, 'report.md'), `# Report\n\n${text}\n`);
        return `${text.length} characters in report.md`;
      },
    }),
  };
}

/** The fleet. A person reviews its plans, and agrees before files are written. */
export function createFleet({ folder, outside = () => undefined, thinking }) {
  const model = createOfflineModel(thinking);
  const { list, read, subtract, write } = createTools(folder, outside);
  const agent = (name, systemMessage, tools) => new StandardAgent({ name, systemMessage, model, tools });
  return new Fleet({
    agents: [
      agent('librarian', 'You know the library and read from it.', [list, read]),
      agent('analyst', 'You compare figures.', [subtract]),
      agent('writer', 'You write reports.', [write]),
    ],
    registry: new AgentRegistry({ models: { [model.id]: model } }),
    model,
    maxStallCount: 0,
    planReview: true,
    humanInTheLoop: { require_approval_for: ['file_operations'] },
    operations: { write_report: 'file_operations' },
  });
}
