import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { LATER } from '../../../test/support/later.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { createServer } from '../server.ts';
import { createMcp } from './mcp-server.ts';

const RUNNER = fileURLToPath(
  new URL('../../../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url),
);

/** The scenarios of the official suite that hold for any server; the others call tools that only its own test server has. */
const SCENARIOS = [
  'server-initialize',
  'ping',
  'tools-list',
  'resources-list',
  'prompts-list',
  'dns-rebinding-protection',
];

let url = '';
beforeAll(async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await manager.session('support');
  await session.save({ messages: [{ role: 'user', content: 'Hello' }] });
  const { fetch: mcp } = await createMcp(manager);
  const server = createServer(manager, { token: false, studio: false, mcp });
  url = `${new URL((await server.listen()).url).origin}/mcp`;
  return async () => {
    await server.close();
    await manager.close();
  };
});

test.each(SCENARIOS)('passes "%s" of the official conformance suite', LATER, async (scenario) => {
  const { stdout } = await promisify(execFile)(process.execPath, [
    RUNNER,
    'server',
    '--url',
    url,
    '--scenario',
    scenario,
  ]);
  expect(stdout).toMatch(/Passed: [1-9]\d*\/\d+, 0 failed/);
});
