import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { TestClock } from '../../../test/support/clock.ts';
import { postgresUrl } from '../../../test/support/postgres.ts';
import { temporaryFolder } from '../../../test/support/storages.ts';
import type { SavestateError } from '../../core/errors.ts';
import { DEFAULT_RUNTIME } from '../agent/agent-state.ts';
import { createCheckpointStorage, openCheckpointManager } from './checkpoint-storage.ts';
import type { WorkflowConfig } from './config-schema.ts';
import { OVERRIDES } from './environment-overrides.ts';
import { loadWorkflowConfig } from './load-workflow-config.ts';
import type { Problem } from './problem.ts';

/** As the requirement has it. */
const REQUIREMENT = `
workflow:
  checkpointing:
    enabled: true
    storage_type: file         # or "memory"
    storage_path: ./checkpoints
    cleanup_after_days: 30
    auto_resume_on_failure: false
`;

const DEFAULTS: WorkflowConfig = {
  workflow: {
    checkpointing: {
      enabled: true,
      storage_type: 'file',
      storage_path: './checkpoints',
      storage_tenant: 'default',
      auto_resume_on_failure: false,
      auto_resume_limit: 3,
      auto_resume_backoff_seconds: 1,
    },
    human_in_the_loop: {
      enabled: true,
      approval_timeout_seconds: 300,
      auto_reject_on_timeout: false,
      require_approval_for: ['code_execution', 'file_operations', 'external_api_calls', 'sensitive_data_access'],
      trusted_operations: ['web_search', 'data_analysis'],
    },
  },
  fleet: {
    orchestrator: {},
    plan_review: { enabled: true, require_human_approval: false },
    callbacks: { streaming: true, log_progress_ledger: true, log_tool_calls: true },
  },
  agents: {},
};

/** Every setting with another value than its default, as YAML writes it. */
const OTHERS: readonly [path: string, value: unknown][] = [
  ['workflow.max_rounds', 20],
  ['workflow.max_stalls', 0],
  ['workflow.max_resets', 5],
  ['workflow.timeout_seconds', 60],
  ['workflow.checkpointing.enabled', false],
  ['workflow.checkpointing.storage_type', 'sqlite'],
  ['workflow.checkpointing.storage_path', './elsewhere'],
  ['workflow.checkpointing.storage_url', 'env:DATABASE_URL'],
  ['workflow.checkpointing.storage_schema', 'agents'],
  ['workflow.checkpointing.storage_tenant', 'acme'],
  ['workflow.checkpointing.cleanup_after_days', 7],
  ['workflow.checkpointing.auto_resume_on_failure', true],
  ['workflow.checkpointing.auto_resume_limit', 9],
  ['workflow.checkpointing.auto_resume_backoff_seconds', 0.5],
  ['workflow.human_in_the_loop.enabled', false],
  ['workflow.human_in_the_loop.approval_timeout_seconds', 10],
  ['workflow.human_in_the_loop.auto_reject_on_timeout', true],
  ['workflow.human_in_the_loop.require_approval_for', ['payments', 'mail']],
  ['workflow.human_in_the_loop.trusted_operations', []],
  ['fleet.orchestrator.max_round_count', 30],
  ['fleet.orchestrator.max_stall_count', 1],
  ['fleet.orchestrator.max_reset_count', 0],
  ['fleet.plan_review.enabled', false],
  ['fleet.plan_review.require_human_approval', true],
  ['fleet.callbacks.streaming', false],
  ['fleet.callbacks.log_progress_ledger', false],
  ['fleet.callbacks.log_tool_calls', false],
];

/** What a setting needs beside it in order to mean anything. */
const COMPANIONS: Readonly<Record<string, object>> = {
  'workflow.checkpointing.storage_url': { storage_type: 'postgres' },
  'workflow.checkpointing.storage_schema': { storage_type: 'postgres', storage_url: 'env:DATABASE_URL' },
  'workflow.checkpointing.storage_tenant': { storage_type: 'postgres', storage_url: 'env:DATABASE_URL' },
  'workflow.checkpointing.auto_resume_limit': { auto_resume_on_failure: true },
  'workflow.checkpointing.auto_resume_backoff_seconds': { auto_resume_on_failure: true },
};
const beside = (path: string): object => ({ workflow: { checkpointing: COMPANIONS[path] ?? {} } });
const withCompanions = (path: string, value: unknown): string => {
  const [section, key = ''] = [path.slice(0, path.lastIndexOf('.')), path.split('.').at(-1)];
  const companions = COMPANIONS[path];
  return JSON.stringify(nested(section, { ...companions, [key]: value }));
};
const nested = (path: string, value: unknown): unknown =>
  path.split('.').reduceRight((inner, key) => ({ [key]: inner }), value);
const valueAt = (config: object, path: string): unknown =>
  path.split('.').reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], config);

function told(text: string, env = {}): string[] {
  try {
    loadWorkflowConfig(text, { env });
  } catch (error) {
    expect(error).toMatchObject({ code: 'INVALID_INPUT' });
    const problems = (error as SavestateError).details.problems as Problem[];
    return problems.map(({ line, column, path, message }) => `${line ?? '-'}:${column ?? '-'} ${path}: ${message}`);
  }
  return [];
}

describe('settings', () => {
  test('[settings.1] the settings of the requirement are accepted as they are, and mean what they say', () => {
    expect(loadWorkflowConfig(REQUIREMENT)).toEqual({
      ...DEFAULTS,
      workflow: { ...DEFAULTS.workflow, checkpointing: { ...DEFAULTS.workflow.checkpointing, cleanup_after_days: 30 } },
    });
  });

  test('[settings.1] an empty file has every default', () => {
    for (const text of ['', '# nothing\n', 'workflow: {}\n']) expect(loadWorkflowConfig(text)).toEqual(DEFAULTS);
  });

  test.each(OTHERS)('[settings.1] %s can be set to %j', (path, value) => {
    expect(valueAt(loadWorkflowConfig(withCompanions(path, value)), path)).toEqual(value);
    expect(valueAt(DEFAULTS, path)).not.toEqual(value);
  });

  test.each(['stream', 'store', 'checkpoint'])(
    '[settings.1] agents.<name>.runtime.%s can be set, and its default is that of agents in the library',
    (flag) => {
      const isOn = DEFAULT_RUNTIME[flag as keyof typeof DEFAULT_RUNTIME];
      const text = JSON.stringify({ agents: { writer: { runtime: { [flag]: !isOn } }, reader: {} } });
      expect(loadWorkflowConfig(text).agents).toEqual({
        writer: { runtime: { ...DEFAULT_RUNTIME, [flag]: !isOn } },
        reader: { runtime: DEFAULT_RUNTIME },
      });
    },
  );

  test('[settings.1] a workflow definition may stand in the same file', () => {
    const text = 'workflow: { name: x, checkpoint: true, max_rounds: 4 }\nsteps:\n  - { id: a, function: f }\n';
    expect(loadWorkflowConfig(text).workflow).toEqual({ ...DEFAULTS.workflow, max_rounds: 4 });
  });

  test('[settings.2] unknown keys and wrong values are told by line and column, all at once, with what was probably meant', () => {
    const text = `workflow:
  checkpointing:
    enabeld: true
    storage_type: flie
    cleanup_after_days: soon
  human_in_the_lop: {}
fleet:
  orchestrator: { max_round_count: 0 }
agents:
  writer: { runtime: { strem: false } }
`;
    expect(told(text)).toEqual([
      expect.stringMatching(/^3:5 workflow\.checkpointing\.enabeld: unknown key "enabeld"\. Did you mean "enabled"\?/),
      '4:19 workflow.checkpointing.storage_type: must be one of file, memory, sqlite, postgres; found "flie". Did you mean "file"?',
      '5:25 workflow.checkpointing.cleanup_after_days: must be a number; found "soon".',
      expect.stringMatching(/^6:3 workflow\.human_in_the_lop: unknown key .* Did you mean "human_in_the_loop"\?/),
      '8:36 fleet.orchestrator.max_round_count: must be a whole number of 1 or more; found 0.',
      expect.stringMatching(/^10:24 agents\.writer\.runtime\.strem: unknown key .* Did you mean "stream"\?/),
    ]);
  });

  test.each(OTHERS)('[settings.2] a mistyped %s is never ignored', (path) => {
    expect(told(JSON.stringify(nested(`${path}x`, 1)))).toEqual([
      expect.stringContaining(
        `${path}x: unknown key "${path.split('.').at(-1)}x". Did you mean "${path.split('.').at(-1)}"?`,
      ),
    ]);
  });

  test.each<[string, string, RegExp]>([
    [
      'redis',
      'workflow: { checkpointing: { storage_type: redis } }',
      /must be one of file, memory, sqlite, postgres; found "redis"/,
    ],
    [
      'postgres without a url',
      'workflow: { checkpointing: { storage_type: postgres } }',
      /^1:30 .*needs a storage_url, such as env:DATABASE_URL/,
    ],
    [
      'a near miss of a known operation',
      'workflow: { human_in_the_loop: { require_approval_for: [code_execuiton] } }',
      /"code_execuiton" is nearly "code_execution"\. Did you mean "code_execution"\?/,
    ],
    [
      'an operation in both lists',
      'workflow: { human_in_the_loop: { trusted_operations: [code_execution] } }',
      /"code_execution" is in require_approval_for and in trusted_operations/,
    ],
    [
      'a part of a workflow definition without steps',
      'workflow: { checkpoint: { storage_path: x } }',
      /^1:13 workflow.checkpoint: unknown key "checkpoint"\. Did you mean "checkpointing"\?/,
    ],
    [
      'a storage_url without storage_type postgres',
      'workflow: { checkpointing: { storage_url: "env:X" } }',
      /^1:30 .*storage_url is for storage_type postgres; it is file\./,
    ],
    [
      'a plan review by a person that is switched off',
      'fleet: { plan_review: { enabled: false, require_human_approval: true } }',
      /1:41 fleet\.plan_review\.require_human_approval: .*enabled: false.*nobody is asked/,
    ],
    [
      'an auto_resume_limit without auto_resume_on_failure',
      'workflow: { checkpointing: { auto_resume_limit: 5 } }',
      /auto_resume_limit has no effect without auto_resume_on_failure: true/,
    ],
    [
      'a storage_path beside storage_type postgres',
      'workflow: { checkpointing: { storage_type: postgres, storage_url: "env:X", storage_path: x.db } }',
      /storage_path is for storage_type file and sqlite; postgres is where storage_url says\./,
    ],
    [
      'an auto_resume_limit beside auto_resume_on_failure: false',
      'workflow: { checkpointing: { auto_resume_on_failure: false, auto_resume_limit: 5 } }',
      /auto_resume_limit has no effect without auto_resume_on_failure: true/,
    ],
    [
      'two limits that differ',
      'workflow: { max_rounds: 4 }\nfleet: { orchestrator: { max_round_count: 5 } }',
      /^2:26 .*is 5, and workflow\.max_rounds is 4\. Leave one of them out/,
    ],
    [
      'an operation that is trusted by default',
      'workflow: { human_in_the_loop: { require_approval_for: [web_search] } }',
      /trusted_operations has it by default: write trusted_operations without "web_search"\./,
    ],
    ['half a day', 'workflow: { checkpointing: { cleanup_after_days: 0.5 } }', /must be a whole number; found 0\.5/],
    ['no end', 'workflow: { checkpointing: { cleanup_after_days: .inf } }', /found Infinity/],
    ['no path', 'workflow: { checkpointing: { storage_path: "" } }', /storage_path: must not be empty; found ""/],
    ['no time', 'workflow: { timeout_seconds: 0 }', /must be more than 0; found 0/],
    [
      'more time than a timer waits',
      'workflow: { timeout_seconds: 3000000 }',
      /must be 2147483 at most, 24 days: .*; found 3000000/,
    ],
    ['a list', '[]', /must be a mapping with some of these keys/],
    ['bad YAML', 'workflow: {', /^\d+:\d+/],
  ])('[settings.2] %s is refused', (_, text, message) => {
    expect(told(text)).toEqual([expect.stringMatching(message)]);
  });
});

describe('the environment', () => {
  test('[settings.3] has a variable for every setting', () => {
    const names = OTHERS.map(([path]) => `SAVESTATE_${path.replaceAll('.', '_').toUpperCase()}`);
    expect([...OVERRIDES.keys()].sort()).toEqual(names.sort());
  });

  test.each(OTHERS)('[settings.3] a variable overrides %s', (path, value) => {
    const name = `SAVESTATE_${path.replaceAll('.', '_').toUpperCase()}`;
    const env = { [name]: Array.isArray(value) ? value.join(', ') : String(value) };
    const text = path.endsWith('storage_path') ? REQUIREMENT : JSON.stringify(beside(path));
    expect(valueAt(loadWorkflowConfig(text, { env }), path)).toEqual(value);
  });

  test('[settings.3] variables put another storage in place of that of a file, and switch resuming off', () => {
    const file = 'auto_resume_on_failure: true, auto_resume_limit: 5, storage_type: sqlite, storage_path: x.db';
    const prefix = 'SAVESTATE_WORKFLOW_CHECKPOINTING';
    const env = {
      [`${prefix}_STORAGE_TYPE`]: 'postgres',
      [`${prefix}_STORAGE_URL`]: 'postgres://db/app',
      [`${prefix}_AUTO_RESUME_ON_FAILURE`]: 'false',
    };
    const { checkpointing } = loadWorkflowConfig(`workflow: { checkpointing: { ${file} } }`, { env }).workflow;
    expect(checkpointing).toMatchObject({ auto_resume_on_failure: false, storage_path: './checkpoints' });
    expect(checkpointing.storage_type).toBe('postgres');
  });

  test('[settings.3] a variable that is no setting, or has a wrong value, is refused; those of others are left alone', () => {
    expect(told('', { SAVESTATE_WORKFLOW_CHECKPOINTING_ENABELD: 'true', SAVESTATE_SEED: '1', PATH: '/bin' })).toEqual([
      '-:- SAVESTATE_WORKFLOW_CHECKPOINTING_ENABELD: is not a setting. Did you mean "SAVESTATE_WORKFLOW_CHECKPOINTING_ENABLED"?',
    ]);
    expect(told('', { SAVESTATE_WORKFLOW_CHECKPOINTING_ENABLED: 'maybe' })).toEqual([
      '-:- SAVESTATE_WORKFLOW_CHECKPOINTING_ENABLED: must be a boolean; found "maybe".',
    ]);
  });
});

describe('storages', () => {
  const settings = (part: Partial<WorkflowConfig['workflow']['checkpointing']>) => ({
    ...DEFAULTS.workflow.checkpointing,
    ...part,
  });

  test.each(['file', 'sqlite', 'memory'] as const)(
    '[settings.4] storage_type: %s makes that storage, and its folder',
    async (type) => {
      const path = join(temporaryFolder(), 'deep', 'checkpoints');
      const storage = await createCheckpointStorage(settings({ storage_type: type, storage_path: path }));
      expect(storage?.kind).toBe(type);
      expect(existsSync(path)).toBe(type !== 'memory');
      if (type === 'sqlite') expect(readdirSync(path)).toContain('checkpoints.db');
      await storage?.close();
    },
  );

  test('[settings.4] what the storage does not look at is refused', async () => {
    const postgres = settings({ storage_type: 'postgres', storage_url: 'postgres://db/app', storage_path: 'x.db' });
    await expect(createCheckpointStorage(postgres)).rejects.toThrow('storage_path is for storage_type file and sqlite');
    const file = settings({ storage_tenant: 'acme' });
    await expect(openCheckpointManager(file)).rejects.toThrow(
      'storage_tenant is for storage_type postgres; it is file.',
    );
  });

  test('[settings.4] storage_path may name the file of sqlite', async () => {
    const path = join(temporaryFolder(), 'deep', 'runs.db');
    await (await createCheckpointStorage(settings({ storage_type: 'sqlite', storage_path: path })))?.close();
    expect(existsSync(path)).toBe(true);
  });

  test('[settings.4] storage_type: postgres takes its url from the environment', async () => {
    const env = { DATABASE_URL: postgresUrl() };
    const postgres = settings({
      storage_type: 'postgres',
      storage_url: 'env:DATABASE_URL',
      storage_schema: 'test_shared',
      storage_tenant: 'settings',
    });
    const storage = await createCheckpointStorage(postgres, { env });
    expect([storage?.kind, (await storage?.stats())?.sessions]).toEqual(['postgres', 0]);
    await storage?.close();
    await expect(createCheckpointStorage(postgres)).rejects.toThrow(
      'storage_url refers to env:DATABASE_URL, and DATABASE_URL is not set.',
    );
  });

  test('[settings.4] enabled: false, and nothing else, makes none', async () => {
    expect(await createCheckpointStorage(settings({ enabled: false }))).toBeUndefined();
    expect(await openCheckpointManager(settings({ enabled: false }))).toBeUndefined();
  });

  test.each<[what: string, settings: unknown, found: string]>([
    ['nothing', undefined, 'found undefined.'],
    ['a path', 'checkpoints.db', 'found "checkpoints.db".'],
    ['a list', [], 'found a list.'],
    ['the whole config', DEFAULTS, 'found workflow: unknown key "workflow".'],
    ['the workflow part', DEFAULTS.workflow, 'found checkpointing: unknown key "checkpointing".'],
    ['a storage that nobody knows', { enabled: true, storage_type: 'zz' }, 'storage_type: must be one of file, memory'],
    ['no flag', { enabled: 'no' }, 'enabled: must be a boolean; found "no".'],
  ])('[settings.4] %s is refused and does not switch checkpointing off', async (_, wrong, found) => {
    for (const open of [createCheckpointStorage, openCheckpointManager]) {
      const message = await open(wrong as never).then(
        String,
        (error: SavestateError) => `${error.code} ${error.message}`,
      );
      expect(message).toContain(
        `INVALID_INPUT The settings of ${open.name}() must be config.workflow.checkpointing of loadWorkflowConfig()`,
      );
      expect(message).toContain(found);
      await expect(open({ storage_type: 'memory' }, { fodler: 'x' } as never)).rejects.toThrow(
        /did you mean "folder"\?$/,
      );
    }
  });

  test('[settings.4] what settings leave out is as in a file', async () => {
    const manager = await openCheckpointManager({ storage_type: 'memory' });
    expect((await manager?.stats())?.sessions).toBe(0);
    await manager?.close();
    const folder = temporaryFolder();
    const storage = await createCheckpointStorage({}, { folder });
    expect([storage?.kind, existsSync(join(folder, 'checkpoints'))]).toEqual(['file', true]);
  });

  test.each<[call: string, read: () => unknown, message: string]>([
    [
      'bytes',
      () => loadWorkflowConfig(Buffer.from('') as never),
      'must be YAML as a string, such as readFileSync(path',
    ],
    ['nothing', () => loadWorkflowConfig(undefined as never), 'The text of loadWorkflowConfig() must be YAML'],
    ['an unknown option', () => loadWorkflowConfig('', { sorce: 'x' } as never), 'did you mean "source"?'],
  ])('[settings.1] settings are not read from %s', (_, read, message) => {
    expect(read).toThrow(expect.objectContaining({ code: 'INVALID_INPUT', message: expect.stringContaining(message) }));
  });

  test('[settings.4] a folder that cannot be made is an error that says why', async () => {
    await expect(createCheckpointStorage(settings({ storage_path: '/dev/null/x' }))).rejects.toMatchObject({
      code: 'STORAGE',
      message: expect.stringMatching(
        /^The folder \/dev\/null\/x for checkpoints cannot be made: EEXIST: .*'\/dev\/null'/,
      ),
    });
  });

  test('[settings.5] cleanup_after_days prunes what is older when the process starts, idle sessions whole', async () => {
    const clock = new TestClock();
    const path = join(temporaryFolder(), 'checkpoints');
    const open = (days?: number) =>
      openCheckpointManager(settings({ storage_path: path, ...(days !== undefined && { cleanup_after_days: days }) }), {
        manager: { now: clock.now },
      });
    const first = await open();
    const session = await first?.session('s');
    const [old] = [await session?.save({ n: 1 }), await session?.save({ n: 2 })];
    await first?.close();
    clock.skip(8 * 86_400_000);
    const kept = await open(30);
    expect(await kept?.get(old ?? '')).toBeDefined();
    await kept?.close();
    const pruned = await open(7);
    expect(await pruned?.get(old ?? '')).toBeUndefined();
    expect((await pruned?.session('s'))?.state).toBeUndefined();
    await pruned?.close();
  });
});
