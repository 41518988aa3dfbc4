import { execFile, execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { BUILT } from '../../test/support/built.ts';
import { installWithout } from '../../test/support/install-without.ts';
import { InMemoryCheckpointStorage } from '../storage/memory/memory-storage.ts';
import { chatStore, resumableStreams } from './ai-sdk/index.ts';
import { SavestateSessionStore } from './claude/index.ts';
import { SavestateSaver, SavestateStore } from './langgraph/index.ts';
import { SavestateSession } from './openai-agents/index.ts';
import { openTelemetry } from './opentelemetry/index.ts';

test('an argument after those that an adapter has is refused', async () => {
  const storage = new InMemoryCheckpointStorage();
  const further = { onConflict: 'error' };
  const calls: readonly ((...given: never[]) => unknown)[] = [
    (...given) => new SavestateSaver(...(given as unknown as [never])),
    (...given) => new SavestateStore(...(given as unknown as [never])),
    (...given) => new SavestateSessionStore(...(given as unknown as [never])),
    chatStore,
    resumableStreams,
  ];
  for (const call of calls) {
    expect(() => call(storage as never, further as never)).toThrow('Options go beside the storage: { storage, ... }');
    expect(() => call(storage as never, undefined as never)).not.toThrow();
  }
  const Session: new (...given: never[]) => unknown = SavestateSession;
  expect(() => new Session(storage as never, 'id' as never, further as never)).toThrow('takes no further argument');
  await expect((openTelemetry as (given: object) => unknown)(further)).rejects.toThrow('takes no further argument');
});

/** The entries of adapters, and the adapters and frameworks that each loads. */
const ENTRIES: readonly [entry: string, adapters: readonly string[], frameworks: RegExp][] = [
  ...['claude', 'openai-agents', 'ai-sdk', 'opentelemetry'].map(
    (name) => [`adapter/${name}/index.js`, [name], /^$/] as [string, string[], RegExp],
  ),
  ['adapter/langgraph/entry.js', ['langgraph'], /^@langchain$/],
  ['server/mcp/index.js', [], /^$/],
];

test.each(ENTRIES)('importing %s loads nothing of other adapters and their frameworks', async (name, own, allowed) => {
  const entry = join(BUILT, name);
  const { stderr: loaded } = await promisify(execFile)(process.execPath, ['-e', `import(${JSON.stringify(entry)})`], {
    env: { ...process.env, NODE_DEBUG: 'esm' },
    maxBuffer: 64 * 1024 * 1024,
  });
  const adapters = new Set(Array.from(loaded.matchAll(/\/adapter\/([a-z-]+)\//g), ([, found]) => found));
  expect([...adapters]).toEqual(own);
  const frameworks = loaded.matchAll(
    /\/node_modules\/(@anthropic-ai|@openai|@opentelemetry|@langchain|@modelcontextprotocol|ai)\//g,
  );
  expect(
    [...new Set(Array.from(frameworks, ([, found = '']) => found))].filter((found) => !allowed.test(found)),
  ).toEqual([]);
});

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
    const model = session.recordedModel({ getResponse: async () => ({ output: [], usage: {} }), getStreamedResponse: () => [] });
    await model.getResponse({ input: 'Hi' }).catch(({ code, message }) => console.log(code, message));`,
  );
  expect(execFileSync(process.execPath, ['a.mjs'], { cwd: folder, encoding: 'utf8' })).toBe(
    'UNSUPPORTED savestate/openai-agents needs the package @openai/agents-core. Install it: npm install @openai/agents-core\n',
  );
});
