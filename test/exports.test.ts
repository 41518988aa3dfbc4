import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { BUILT } from './support/built.ts';

const ROOT = resolve(import.meta.dirname, '..');
const MAX_VALUES = 12;
const MAX_NAMES = 350;

type Manifest = { readonly dependencies: object; readonly peerDependencies: object };
type Entry = { readonly source: string; readonly values: string; readonly types: string };

/** Everything that is public. A name is added here on purpose, and taken away with a line in the changelog. */
const ENTRIES: Record<string, Entry> = {
  '.': {
    source: 'index.ts',
    values:
      'Checkpoint CheckpointManager FileCheckpointStorage InMemoryCheckpointStorage SavestateError SecretRef SqliteCheckpointStorage hasErrorCode open',
    types:
      'AgentFactory CheckpointComparison CheckpointId CheckpointManagerOptions CheckpointPage CheckpointStorage ChunkStorage ClassCodec ErrorCode ForkOptions ImportResult Lease LeaseOptions ListFilter ListPage ManagerEvents Migration PruneResult RestoreOptions RestoreProblem RestoreReport RetentionPolicy RetentionVerdict Revision SaveOptions Session SessionId SessionOptions SessionTree StatefulAgent StepAttempt StepOptions VerifyReport',
  },
  './workers': {
    source: 'manager/workers/index.ts',
    values: 'Workers',
    types:
      'AbandonedSession GroupMember GroupMembership GroupState InFlightMessage JoinOptions MemberState Recovery RecoveryHandler RecoveryOptions RecoveryReport RestoreGroupOptions RestoredGroup SaveGroupOptions',
  },
  './core': {
    source: 'core/index.ts',
    values: 'StateCodec applyPatch diffStates diffText toPatch',
    types: 'StateCodecOptions',
  },
  './storage': {
    source: 'storage/index.ts',
    values:
      'Reachable checkExpectations checkRequirement createRef formatChunk matchesQuery moved parseChunk readReachableByLevel replaced selectRows taken',
    types:
      'CheckpointQuery CheckpointRow CheckpointRowWithRoot CheckpointWatcher Chunk ChunkContent ChunkStorage CollectResult Commit CommitResult Deletion Digest EffectRow NewCheckpoint NewEffect Ref RefChange RefKind StorageStats StorageWatch',
  },
  './backup': {
    source: 'manager/backup/index.ts',
    values: 'backup replicate restoreBackup',
    types: 'BackupReport',
  },
  './objects': {
    source: 'storage/objects/index.ts',
    values: 'FolderObjects S3Objects withObjects',
    types: 'ObjectStore StoredObject',
  },
  './encryption': {
    source: 'storage/encryption/index.ts',
    values: 'KeyFile Keyring encrypted',
    types: '',
  },
  './postgres': {
    source: 'storage/postgres/index.ts',
    values: 'PostgresCheckpointStorage migratePostgres',
    types: 'MigrationOptions PostgresStorageOptions',
  },
  './langgraph': {
    source: 'adapter/langgraph/index.ts',
    values:
      'SavestateSaver SavestateStore SavestateThreads exportThreads importThreads langGraphClasses openPostgresSaverDatabase openSqliteSaverDatabase',
    types:
      'ExportOptions ImportOptions PostgresSaverOptions SaverDatabaseOptions SavestateSaverOptions SavestateStoreOptions ThreadSource TransferReport',
  },
  './claude': {
    source: 'adapter/claude/index.ts',
    values: 'SavestateSessionStore',
    types: '',
  },
  './openai-agents': {
    source: 'adapter/openai-agents/index.ts',
    values: 'SavestateSession',
    types: 'ApprovalAnswer PendingApproval SavestateSessionOptions',
  },
  './ai-sdk': {
    source: 'adapter/ai-sdk/index.ts',
    values: 'chatStore durable recorded resumableStreams',
    types: 'ActiveStream ChatStore DurableState ResumableStreams',
  },
  './opentelemetry': {
    source: 'adapter/opentelemetry/index.ts',
    values: 'openTelemetry',
    types: '',
  },
  './agents': {
    source: 'runtime/index.ts',
    values:
      'AgentRegistry CheckpointRestorer CheckpointingGroupChatManager GroupChat LocalCodeExecutor StandardAgent buildModel defineTool fromLanguageModel withRetries',
    types:
      'AgentOverride AgentRegistryOptions AskHuman ChatEnd ChatMessage ChatModel ChatRunOptions ChatRunResult CodeBlock CodeExecutionConfig CodeExecutor CodeResult ContinueOptions ContinueResult Difference EndRules GroupChatManagerOptions GroupChatOptions HumanRequest LlmConfig ModelMessage ModelPrices ModelReply ModelRequest OnDifference ReplyContext ReplyOutcome RestoreChatOptions RestoredChat ResumeChatOptions RetryPolicy SpeakerSelection SpeakerSelector StandardAgentOptions Tool ToolCall ToolContext',
  },
  './repair': {
    source: 'runtime/repair/index.ts',
    values: 'compareRuns formatRunComparison formatTrial intervene trial',
    types:
      'InterveneOptions InterveneResult Intervention Judge RunComparison RunRef TrialArm TrialOptions TrialReport TrialVerdict',
  },
  './workspace': {
    source: 'runtime/workspace/index.ts',
    values: 'WorkspaceCache applyRestore captureWorkspace extractCodeBlocks planRestore',
    types: 'ApplyOptions PlanOptions WorkspaceOptions WorkspacePlan WorkspaceReport WorkspaceState',
  },
  './drift': {
    source: 'runtime/drift/index.ts',
    values: 'DriftDetector',
    types: 'DriftAssessment DriftEvent DriftEvidence DriftJudge DriftKind DriftOptions DriftSnapshot',
  },
  './loop': {
    source: 'runtime/loop/index.ts',
    values: 'AgentLoop verifyAgent',
    types:
      'AgentLoopOptions AgentMemory AgentReport AgentTask DriftReading DriftWatch GuardOptions LoopAgent LoopAgentState LoopEnding LoopEvent LoopSettings LoopTool Message Operation SectionHooks Sections StopOptions Turn VerifyAgentOptions',
  },
  './workflow': {
    source: 'runtime/workflow/index.ts',
    values:
      'WorkflowExecutor createCheckpointStorage defineWorkflow loadWorkflowConfig openCheckpointManager parseWorkflow superviseWorkflow workflowJsonSchema',
    types:
      'ApprovalAnswer ApprovalRequest Problem RunOptions StepContext StepFunction SuperviseOptions SupervisedResult Workflow WorkflowAgent WorkflowConfig WorkflowDefinition WorkflowExecutorOptions WorkflowMigration WorkflowRegistry WorkflowResult',
  },
  './fleet': {
    source: 'runtime/fleet/index.ts',
    values: 'Fleet FleetRestorer FleetRunner Orchestrator fleetOptionsFrom superviseFleet',
    types:
      'ContinueFleetOptions ContinueFleetResult FleetAnswer FleetEnd FleetOptions FleetRequest FleetRunOptions FleetRunResult FleetRunnerOptions OperationPolicy OrchestratorOptions RestoreFleetOptions RestoredFleet ResumeFleetOptions SuperviseFleetOptions SupervisedFleetResult',
  },
  './memory': {
    source: 'memory/index.ts',
    values: 'Memory PostgresMemoryStorage SqliteMemoryStorage endpointEmbedder localEmbedder',
    types:
      'AddOptions AddResult ChangeOptions Embedder EndpointEmbedderOptions ExtractedMemory ExtractionRequest MemoryChange MemoryEvent MemoryExplanation MemoryExtractor MemoryFilters MemoryHit MemoryInput MemoryKind MemoryMessage MemoryOptions MemoryRecord MemoryScope MemoryStorage PostgresMemoryOptions PurgeResult RenderOptions RenderResult SearchOptions SearchResult SqliteMemoryOptions ViewOptions',
  },
  './server': {
    source: 'server/index.ts',
    values: 'createServer',
    types: 'ListenOptions Listening ServedTeam Server ServerOptions',
  },
  './mcp': {
    source: 'server/mcp/index.ts',
    values: 'createMcp',
    types: '',
  },
  './client': {
    source: 'server/client/index.ts',
    values: 'ResponseError createClient',
    types: 'Client ClientOptions EventsRequest ReplyOf RequestOf StreamEvent',
  },
  './testing': {
    source: 'testing/index.ts',
    values: 'faultyStorage scriptedModel startModelServer storageContract',
    types:
      'FaultPlan ModelServer Script ScriptedAnswer ScriptedModel ScriptedModelOptions ScriptedReply StorageContractOptions',
  },
};

const split = (names: string) => names.split(' ').filter((name) => name !== '');

/** The types that an entry exports: they leave no trace at run time. */
function typesOf(source: string): string[] {
  const text = readFileSync(join(ROOT, 'src', source), 'utf8');
  expect(text).not.toMatch(/^export (\*|type \*|const|function|class|interface|type [A-Z])/m);
  return [...text.matchAll(/^export (type )?\{([^}]*)\}/gm)].flatMap(([, all, names = '']) =>
    names
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== '' && (all !== undefined || name.startsWith('type ')))
      .map((name) => name.replace('type ', '').replace(/^.* as /, '')),
  );
}

describe.each(Object.entries(ENTRIES))('%s', (_entry, { source, values, types }) => {
  test('exports just these values, and no more than a person can learn', async () => {
    const module = (await import(join(ROOT, 'src', source))) as object;
    expect(Object.keys(module).sort()).toEqual(split(values).sort());
    expect(split(values).length).toBeLessThanOrEqual(MAX_VALUES);
  });

  test('exports just these types', () => {
    expect(typesOf(source).sort()).toEqual(split(types).sort());
  });
});

test('all public names are few, and each entry of package.json is listed', () => {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    exports: Record<string, { default?: string }>;
  };
  const built = Object.entries(exports).filter(([, { default: path }]) => path !== undefined);
  expect(built.map(([entry, { default: path = '' }]) => [entry, path]).sort()).toEqual(
    Object.entries(ENTRIES)
      .map(([entry, { source }]) => [entry, `./dist/${source.replace('.ts', '.js')}`])
      .sort(),
  );
  const names = Object.values(ENTRIES).flatMap(({ values, types }) => [...split(values), ...split(types)]);
  expect(names.length).toBeLessThanOrEqual(MAX_NAMES);
});

/** What an entry loads beside files of ours and of Node. What is not needed at once is loaded when it is needed. */
const LOADED: Record<string, string> = {
  './langgraph':
    '@langchain/core/documents @langchain/core/messages @langchain/langgraph @langchain/langgraph-checkpoint hono/http-exception',
  './agents': 'zod',
  './repair': 'zod',
  './workspace': 'zod',
  './drift': 'zod',
  './loop': 'zod',
  './workflow': 'zod',
  './fleet': 'zod',
  './memory': 'zod',
  './server': '@hono/node-server hono hono/compress zod',
  './mcp': '@hono/node-server hono hono/compress zod',
};
/** Each file takes time. */
const MAX_LOADED_FILES = 40;

/** What a built file imports as soon as it is loaded. */
function importsOf(file: string): string[] {
  const imports = readFileSync(file, 'utf8').matchAll(/^(?:import|export) .*?['"]([^'"]+)['"];$/gm);
  return Array.from(imports, ([, from = '']) => from);
}

/** `await using` in a source would: the compiler imports a helper for it from a package of its own. */
test('no built file, commands included, imports a package that an installation does not bring or ask for', () => {
  const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;
  const known = Object.keys({ ...dependencies, ...peerDependencies });
  const files = readdirSync(BUILT, { recursive: true, encoding: 'utf8' });
  const unknown = files
    .filter((file) => file.endsWith('.js') && !file.startsWith('studio'))
    .flatMap((file) => importsOf(join(BUILT, file)).map((from) => [file, from] as const))
    .filter(([, from]) => !/^(\.|node:)/.test(from) && !known.some((name) => `${from}/`.startsWith(`${name}/`)));
  expect(unknown).toEqual([]);
});

test.each(Object.keys(ENTRIES))('importing "%s" loads few files, and only the packages it needs', (entry) => {
  const packages = new Set<string>();
  const files = new Set<string>();
  const visit = (file: string) => {
    if (files.has(file)) return;
    files.add(file);
    for (const from of importsOf(file)) {
      if (from.startsWith('.')) visit(resolve(dirname(file), from));
      else if (!from.startsWith('node:')) packages.add(from);
    }
  };
  visit(join(BUILT, ENTRIES[entry]?.source.replace('.ts', '.js') ?? ''));
  expect([...packages].sort()).toEqual(split(LOADED[entry] ?? ''));
  expect(files.size).toBeLessThanOrEqual(entry === '.' ? 4 : MAX_LOADED_FILES);
});

/** Sources of entries that are of no use without a peer. */
const NEEDS_PEER = /^(?:adapter|server\/mcp)\//;

test('types hold with what is installed with the package', () => {
  const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  const entries = Object.entries(ENTRIES).filter(([, { source }]) => !NEEDS_PEER.test(source));
  const read = new Set<string>();
  const found: string[] = [];
  const visit = (file: string) => {
    if (read.has(file)) return;
    read.add(file);
    for (const [, from = ''] of readFileSync(file, 'utf8').matchAll(/(?:from|import)\s*\(?['"]([\w@./-]+)['"]/g)) {
      const name = from.split('/', from.startsWith('@') ? 2 : 1).join('/');
      if (from.startsWith('.')) visit(resolve(dirname(file), from.replace(/\.[jt]s$/, '.d.ts')));
      else if (!(name in dependencies)) found.push(`${file} imports ${from}`);
    }
  };
  for (const [, { source }] of entries) visit(join(BUILT, source.replace('.ts', '.d.ts')));
  expect(found).toEqual([]);
  expect(read.size).toBeGreaterThan(entries.length);
});
