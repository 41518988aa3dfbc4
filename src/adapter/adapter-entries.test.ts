import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { builtFolder } from '../../test/support/on-demand.ts';

test.each(['claude', 'openai-agents', 'ai-sdk'])(
  'importing %s loads no framework, and nothing of other adapters',
  async (name) => {
    const entry = join(builtFolder(), 'adapter', name, 'index.js');
    const { stderr: loaded } = await promisify(execFile)(process.execPath, ['-e', `import(${JSON.stringify(entry)})`], {
      env: { ...process.env, NODE_DEBUG: 'esm' },
      maxBuffer: 64 * 1024 * 1024,
    });
    expect(loaded).toContain('adapter-storage.js');
    expect(loaded).not.toMatch(/@anthropic-ai|@openai|@langchain|node_modules\/ai\/|adapter\/langgraph/);
  },
);
