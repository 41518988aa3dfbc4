import { callback, checkOptions, type OptionChecks, positive, wholeFrom } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { parseName } from '../../core/record/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { DEFAULT_SETTINGS } from './loop-settings.ts';
import type { AgentState } from './state/agent-state.ts';
import { errorText } from './state/error-text.ts';
import { OpenWorks } from './state/open-works.ts';
import { asStored, readSections, SECTION_NAMES, secretsOf } from './state/sections.ts';
import { LiveAgent } from './turn/live-agent.ts';
import type { LoopAgent } from './turn/loop-agent.ts';

/** How an agent is looked at. */
export type VerifyAgentOptions = {
  /** Makes an agent that a checkpoint may be restored into without doing any harm. Without one the sections alone are restored. */
  readonly createAgent?: (() => LoopAgent) | undefined;
  /** How far apart scheduled checkpoints should be; default: 30 minutes. */
  readonly routineEveryMs?: number | undefined;
  /** By how much they may be off; default: 5 minutes. */
  readonly toleranceMs?: number | undefined;
};

/** One look at an agent. */
export type AgentCheck = {
  readonly name: 'presence' | 'intervals' | 'fields' | 'integrity' | 'restore' | 'freshness';
  readonly status: 'passed' | 'failed' | 'skipped';
  readonly summary: string;
  readonly findings: readonly string[];
};

/** What is known about the checkpoints of one agent; plain data. */
export type AgentReport = {
  readonly agentId: string;
  readonly status: 'passed' | 'failed';
  readonly checkedAt: string;
  readonly checkpoints: { readonly total: number; readonly byType: { readonly [type: string]: number } };
  readonly newest: { readonly id: string; readonly type: string; readonly timestamp: string } | null;
  readonly checks: readonly AgentCheck[];
};

const PAGE = 200;
const TOLERANCE_MS = 300_000;
const LOOP_TYPES: ReadonlySet<string> = new Set(['routine', 'pre_operation', 'recovery']);

const OPTIONS: OptionChecks<VerifyAgentOptions> = {
  createAgent: callback,
  routineEveryMs: positive,
  toleranceMs: wholeFrom(0),
};

/** Looks at everything that is stored of an agent, and really restores each of its checkpoints into a scratch agent. */
export async function verifyAgent(
  manager: CheckpointManager,
  agentId: string,
  options: VerifyAgentOptions = {},
): Promise<AgentReport> {
  parseName(agentId, 'An agent id');
  checkOptions(options, OPTIONS, 'verifyAgent()');
  const { ports } = manager.engine;
  const all = await listAll(manager, agentId);
  const newest = all.at(-1);
  const checks = [
    checkPresence(all),
    checkIntervals(all, options),
    await checkFields(manager, all),
    await checkIntegrity(manager, all),
    await checkRestore(manager, all, options),
    checkFreshness(all, options, ports.now()),
  ];
  return {
    agentId,
    status: checks.some(({ status }) => status === 'failed') ? 'failed' : 'passed',
    checkedAt: new Date(ports.now()).toISOString(),
    checkpoints: { total: all.length, byType: countTypes(all) },
    newest:
      newest === undefined ? null : { id: newest.id, type: newest.type, timestamp: newest.timestamp.toISOString() },
    checks,
  };
}

/** All checkpoints of exactly this agent that the loop took, oldest first. */
async function listAll(manager: CheckpointManager, agentId: string): Promise<Checkpoint[]> {
  const all: Checkpoint[] = [];
  let cursor: string | undefined;
  do {
    const page = await manager.list(
      { agentId },
      { order: 'oldest', limit: PAGE, ...(cursor !== undefined && { cursor }) },
    );
    all.push(...page.checkpoints.filter(({ type }) => LOOP_TYPES.has(type)));
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return all;
}

function checkPresence(all: readonly Checkpoint[]): AgentCheck {
  const routine = all.filter(({ type }) => type === 'routine').length;
  const findings = routine === 0 ? ['There is no routine checkpoint.'] : [];
  return conclude('presence', findings, `${all.length} checkpoints, ${routine} of them routine`);
}

/** Gaps between scheduled checkpoints that follow each other; a stop or a new start in between excuses a gap. */
function checkIntervals(all: readonly Checkpoint[], options: VerifyAgentOptions): AgentCheck {
  const { routineEveryMs = DEFAULT_SETTINGS.routineEveryMs, toleranceMs = TOLERANCE_MS } = options;
  const routine = all.filter(({ type }) => type === 'routine');
  const gaps = routine.slice(1).flatMap((later, at) => {
    const earlier = routine[at];
    if (earlier?.trigger !== 'schedule' || later.trigger !== 'schedule') return [];
    return [{ earlier, later, gapMs: later.timestamp.getTime() - earlier.timestamp.getTime() }];
  });
  if (gaps.length === 0) return { name: 'intervals', status: 'skipped', summary: 'nothing to compare', findings: [] };
  const findings = gaps
    .filter(({ gapMs }) => Math.abs(gapMs - routineEveryMs) > toleranceMs)
    .map(({ earlier, later, gapMs }) => `${formatMinutes(gapMs)} between ${earlier.id} and ${later.id}.`);
  return conclude('intervals', findings, `${gaps.length} gaps, ${formatMinutes(routineEveryMs)} expected`);
}

/** Whether scheduled checkpoints still come; an agent that was stopped is expected to take none. */
function checkFreshness(all: readonly Checkpoint[], options: VerifyAgentOptions, nowMs: number): AgentCheck {
  const { routineEveryMs = DEFAULT_SETTINGS.routineEveryMs, toleranceMs = TOLERANCE_MS } = options;
  const last = all.findLast(({ type }) => type === 'routine');
  if (last === undefined)
    return { name: 'freshness', status: 'skipped', summary: 'there is no routine checkpoint', findings: [] };
  const ageMs = nowMs - last.timestamp.getTime();
  const summary = `last routine checkpoint ${formatMinutes(ageMs)} ago`;
  const isLate = ageMs > routineEveryMs + toleranceMs;
  if (isLate && last.trigger === 'stopped')
    return { name: 'freshness', status: 'skipped', summary: `${summary}, when the agent was stopped`, findings: [] };
  return conclude(
    'freshness',
    isLate ? [`The last checkpoint ${last.id} was taken ${formatMinutes(ageMs)} ago.`] : [],
    summary,
  );
}

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
  const digest = (state: Partial<AgentState>) =>
    plainCodec.encode(SECTION_NAMES.map((name) => state[name])).root.digest;
  const findings = await findIn(all, async ({ id }) => {
    const stored = asStored(await manager.load(id));
    const problems: string[] = [];
    const scratch = new LiveAgent(createAgent, undefined, { nowMs: ports.now(), mind: {}, works: new OpenWorks() });
    scratch.onProblem = (section, problem) => void problems.push(`$.${section}: ${problem}`);
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

function countTypes(all: readonly Checkpoint[]): { [type: string]: number } {
  const counts: Record<string, number> = {};
  for (const { type } of all) counts[type] = (counts[type] ?? 0) + 1;
  return counts;
}

function formatMinutes(durationMs: number): string {
  return `${Number((durationMs / 60_000).toFixed(1))} minutes`;
}
