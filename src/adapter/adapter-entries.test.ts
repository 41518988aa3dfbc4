import { execFile, execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { BUILT } from '../../test/support/built.ts';
import { installWithout } from '../../test/support/install-without.ts';

test.each(['claude', 'openai-agents', 'ai-sdk', 'opentelemetry'])(
  'importing %s loads no framework, and nothing of other adapters',
  async (name) => {
    const entry = join(BUILT, 'adapter', name, 'index.js');
    const { stderr: loaded } = await promisify(execFile)(process.execPath, ['-e', `import(${JSON.stringify(entry)})`], {
      env: { ...process.env, NODE_DEBUG: 'esm' },
      maxBuffer: 64 * 1024 * 1024,
    });
    const adapters = new Set(Array.from(loaded.matchAll(/\/adapter\/([a-z-]+)\//g), ([, found]) => found));
    expect([...adapters]).toEqual([name]);
    expect(loaded).not.toMatch(/@anthropic-ai|@openai|@opentelemetry|@langchain|node_modules\/ai\//);
  },
);

test('without the API of OpenTelemetry the call that needs it says what to install', () => {
  const folder = installWithout('@opentelemetry');
  writeFileSync(
    join(folder, 'a.mjs'),
    `import { openTelemetry } from 'savestate/opentelemetry';
    await openTelemetry().catch(({ code, message }) => console.log(code, message));`,
  );
  expect(execFileSync(process.execPath, ['a.mjs'], { cwd: folder, encoding: 'utf8' })).toBe(
    'UNSUPPORTED savestate/opentelemetry needs the package @opentelemetry/api. Install it: npm install @opentelemetry/api\n',
  );
});

test('without the OpenAI Agents SDK the call that needs it says what to install', () => {
  const folder = installWithout('@openai');
  writeFileSync(
    join(folder, 'a.mjs'),
    `import { InMemoryCheckpointStorage } from 'savestate';
    import { SavestateSession } from 'savestate/openai-agents';
    const session = new SavestateSession(new InMemoryCheckpointStorage(), 'a');
    const model = session.recordedModel({ getResponse: async () => ({ output: [], usage: {} }) });
    await model.getResponse({ input: 'Hi' }).catch(({ code, message }) => console.log(code, message));`,
  );
  expect(execFileSync(process.execPath, ['a.mjs'], { cwd: folder, encoding: 'utf8' })).toBe(
    'UNSUPPORTED savestate/openai-agents needs the package @openai/agents-core. Install it: npm install @openai/agents-core\n',
  );
});
