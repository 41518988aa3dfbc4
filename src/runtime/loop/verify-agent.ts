import { callback, checkOptions, type OptionChecks } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { parseName } from '../../core/record/id.ts';
import { eachCheckpoint } from '../../manager/branch/history.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { LoopAgentState } from './state/agent-state.ts';
import { errorText } from './state/error-text.ts';
import { asStored, readSections, SECTION_NAMES, secretsOf } from './state/sections.ts';
import { Watch } from './turn/drift-watch.ts';
import { LiveAgent } from './turn/live-agent.ts';
import type { LoopAgent } from './turn/loop-agent.ts';
import { OpenWorks } from './turn/open-works.ts';

/** How an agent is looked at. */
export type VerifyAgentOptions = {
  /** Makes an agent that a checkpoint may be restored into without doing any harm. Without one the sections alone are restored. */
  readonly createAgent?: (() => LoopAgent) | undefined;
};

/** One look at an agent. */
type AgentCheck = {
  readonly name: 'presence' | 'fields' | 'integrity' | 'restore';
  readonly status: 'passed' | 'failed';
  /** What was looked at. */
  readonly summary: string;
  readonly findings: readonly string[];
};

/** What is known about the checkpoints of one agent; plain data. */
export type AgentReport = {
  readonly agentId: string;
  readonly status: 'passed' | 'failed';
  readonly checkpoints: { readonly total: number; readonly byType: { readonly [type: string]: number } };
  readonly newest: { readonly id: string; readonly type: string; readonly timestamp: string } | null;
  readonly checks: readonly AgentCheck[];
};

const LOOP_TYPES: ReadonlySet<string> = new Set(['routine', 'pre_operation', 'recovery']);

const OPTIONS: OptionChecks<VerifyAgentOptions> = { createAgent: callback };

/** Looks at everything that is stored of an agent, and really restores each of its checkpoints into a scratch agent. */
export async function verifyAgent(
  manager: CheckpointManager,
  agentId: string,
  options: VerifyAgentOptions = {},
): Promise<AgentReport> {
  parseName(agentId, 'An agent id');
  checkOptions(options, OPTIONS, 'verifyAgent()');
  const all = await listAll(manager, agentId);
  const newest = all.at(-1);
  const byType: Record<string, number> = {};
  for (const { type } of all) byType[type] = (byType[type] ?? 0) + 1;
  const checks = [
    conclude(
      'presence',
      byType.routine === undefined ? ['There is no routine checkpoint.'] : [],
      `${all.length} checkpoints`,
    ),
    await checkFields(manager, all),
    await checkIntegrity(manager, all),
    await checkRestore(manager, all, options),
  ];
  return {
    agentId,
    status: checks.some(({ status }) => status === 'failed') ? 'failed' : 'passed',
    checkpoints: { total: all.length, byType },
    newest:
      newest === undefined ? null : { id: newest.id, type: newest.type, timestamp: newest.timestamp.toISOString() },
    checks,
  };
}

/** All checkpoints of exactly this agent that the loop took, oldest first. */
async function listAll(manager: CheckpointManager, agentId: string): Promise<Checkpoint[]> {
  const all: Checkpoint[] = [];
  for await (const checkpoint of eachCheckpoint(manager, { agentId }, 'oldest'))
    if (LOOP_TYPES.has(checkpoint.type)) all.push(checkpoint);
  return all;
}

/** What a checkpoint of an agent must hold; what a repair would have to fill in, or a secret that was left out, is a finding. */
async function checkFields(manager: CheckpointManager, all: readonly Checkpoint[]): Promise<AgentCheck> {
  const findings = await findIn(all, async (checkpoint) => {
    const { kept, problems } = readSections(await manager.load(checkpoint.id));
    const found = SECTION_NAMES.flatMap((name) => [...(problems.get(name) ?? []), ...secretsOf(name, kept)]);
    const health = checkpoint.metadata?.health;
    const absent = typeof health === 'string' ? [] : ['$.metadata.health: It is not recorded.'];
    return [...absent, ...found.map(({ path, problem }) => `${path}: ${problem}`)];
  });
  return conclude('fields', findings, `${SECTION_NAMES.join(', ')} and health in ${all.length} checkpoints`);
}

async function checkIntegrity(manager: CheckpointManager, all: readonly Checkpoint[]): Promise<AgentCheck> {
  const { findings, damagedCheckpoints } = await manager.verify();
  const own = new Set<string>(all.map(({ id }) => id));
  const damaged = damagedCheckpoints.filter((id) => own.has(id)).map((id) => `${id} is damaged.`);
  const sessions = new Set(all.map(({ sessionId }) => `session "${sessionId}"`));
  const around = findings.filter(({ subject }) => [...sessions].some((session) => subject.includes(session)));
  const others = [...damaged, ...around.map(({ subject, problem }) => `${subject}: ${problem}`)];
  return conclude('integrity', others, `digests, chains and effects; ${findings.length} findings in the whole storage`);
}

/** Restores each into a new agent, collects it again, and compares. */
async function checkRestore(
  manager: CheckpointManager,
  all: readonly Checkpoint[],
  { createAgent = () => ({ handle: () => undefined }) }: VerifyAgentOptions,
): Promise<AgentCheck> {
  const { plainCodec, ports } = manager.engine;
  const digest = (state: Partial<LoopAgentState>) =>
    plainCodec.encode(SECTION_NAMES.map((name) => state[name])).root.digest;
  const findings = await findIn(all, async ({ id, agentId = '' }) => {
    const stored = asStored(await manager.load(id));
    const problems: string[] = [];
    const scratch = new LiveAgent({
      createAgent,
      watch: new Watch(undefined, { agentId, ports, timeoutMs: 0, tell: () => undefined }),
      works: new OpenWorks(),
      nowMs: ports.now(),
      onProblem: (section, problem) => void problems.push(`$.${section}: ${problem}`),
    });
    scratch.load(stored);
    const report = await scratch.renew(undefined, createAgent());
    const found = report.sections.flatMap((section) => section.problems);
    problems.push(...found.map(({ path, problem }) => `${path}: ${problem}`));
    scratch.current = undefined; // a turn under way would keep the sections from being collected
    const isSame = digest(scratch.capture()) === digest(stored);
    return isSame ? problems : [...problems, 'What the agent holds after the restore differs from what was saved.'];
  });
  return conclude('restore', findings, `${all.length} checkpoints restored into a scratch agent`);
}

async function findIn(
  all: readonly Checkpoint[],
  look: (checkpoint: Checkpoint) => Promise<readonly string[]>,
): Promise<string[]> {
  const findings: string[] = [];
  for (const checkpoint of all) {
    const found = await look(checkpoint).catch((error: unknown) => [errorText(error).message]);
    findings.push(...found.map((finding) => `${checkpoint.id} ${finding}`));
  }
  return findings;
}

function conclude(name: AgentCheck['name'], findings: readonly string[], summary: string): AgentCheck {
  return { name, status: findings.length === 0 ? 'passed' : 'failed', summary, findings };
}
