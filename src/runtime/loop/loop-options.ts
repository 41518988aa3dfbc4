import { parseName, parseSessionId } from '../../core/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { engineOf } from '../../manager/engine.ts';
import { type LeaseOptions, parseTerms } from '../../manager/lease-acquisition.ts';
import type { DriftOptions } from '../drift/index.ts';
import type { AgentIdentity } from './agent-checkpoints.ts';
import type { AgentMind } from './agent-state.ts';
import { DetectorWatch, type DriftWatch, GuardedWatch } from './drift-watch.ts';
import {
  checkFields,
  checkFlag,
  checkFunction,
  checkText,
  describeValue,
  type FieldChecks,
  givenFields,
  isObject,
  oneOf,
  refuse,
  wholeFrom,
} from './field-checks.ts';
import type { LoopAgent } from './loop-agent.ts';
import { type LoopSettings, readSettings } from './loop-settings.ts';
import { checkSections, SECTION_NAMES } from './sections.ts';

/** How a loop is made. */
export type AgentLoopOptions = AgentIdentity & {
  /** Its clock and timers are the loop's, too. */
  readonly manager: CheckpointManager;
  /** Makes the agent: at the start, at a refresh, and after a drift. */
  readonly createAgent: () => LoopAgent;
  /** Default: the agent's id. */
  readonly sessionId?: string;
  /**
   * Brings the agent back, when it runs, to what it knew at this checkpoint of its session; its messages do not go back. For one
   * call, not for every start: see `docs/LOOP.md`.
   */
  readonly restoreFrom?: string;
  /** What a new agent begins with. */
  readonly initial?: Partial<AgentMind>;
  readonly settings?: Partial<LoopSettings>;
  /** `exit` ends the run at a refresh, for a supervisor that starts a new process. Default: `in-process`. */
  readonly refresh?: 'in-process' | 'exit';
  /** The built-in detector with these options, a watch of your own, or none. Default: the detector. */
  readonly drift?: DriftOptions | { readonly watch: DriftWatch } | false;
  /** Tells a heartbeat this often, unless a turn is overdue. Default: never. */
  readonly heartbeatMs?: number;
  /** Keeps other processes from driving the same agent. */
  readonly lease?: LeaseOptions;
  /** Whether the retention policy is applied after each routine checkpoint, and space given back. Default: true. */
  readonly prune?: boolean;
};

/** Options that were checked, with their defaults. */
export type ReadLoopOptions = {
  readonly manager: CheckpointManager;
  readonly identity: AgentIdentity;
  readonly sessionId: string;
  readonly restoreFrom: string | undefined;
  readonly createAgent: () => LoopAgent;
  readonly initial: Partial<AgentMind>;
  readonly settings: LoopSettings;
  readonly watch: GuardedWatch | undefined;
  readonly lease: LeaseOptions | undefined;
  readonly refreshMode: 'in-process' | 'exit';
  readonly heartbeatMs: number | undefined;
  readonly isPruning: boolean;
};

/** Checks everything that a caller said about a loop, before anything is opened or taken. */
export function readLoopOptions(options: AgentLoopOptions): ReadLoopOptions {
  checkFields(options, 'options', OPTION_CHECKS);
  const { manager, agentId, agentType, userId, sessionId = agentId } = options;
  OPTION_CHECKS.manager(manager);
  OPTION_CHECKS.agentId(agentId);
  OPTION_CHECKS.createAgent(options.createAgent, 'options.createAgent');
  return {
    manager,
    identity: { agentId, ...(agentType !== undefined && { agentType }), ...(userId !== undefined && { userId }) },
    sessionId,
    restoreFrom: options.restoreFrom,
    createAgent: () => checkAgent(options.createAgent()),
    initial: readInitial(manager, options.initial),
    settings: readSettings(options.settings),
    watch: createWatch(options.drift, manager.engine.ports.now),
    lease: options.lease,
    refreshMode: options.refresh ?? 'in-process',
    heartbeatMs: options.heartbeatMs,
    isPruning: options.prune ?? true,
  };
}

const LEASE_CHECKS: FieldChecks = {
  ttlMs: wholeFrom(1),
  owner: (value) => void parseName(value, 'lease.owner'),
  renew: oneOf('auto', 'manual'),
  waitMs: wholeFrom(0),
  signal: (value, field) => {
    if (!(value instanceof AbortSignal)) throw refuse(`${field} is ${describeValue(value)}`, ['an AbortSignal']);
  },
};

const WATCH_METHODS = ['observe', 'assess', 'snapshot', 'restore', 'reset'] as const;

const OPTION_CHECKS = {
  manager: (value: unknown) => void engineOf(value as CheckpointManager),
  agentId: (value: unknown) => void parseName(value, 'options.agentId'),
  createAgent: checkCreateAgent,
  agentType: (value: unknown) => void parseName(value, 'options.agentType'),
  userId: (value: unknown) => void parseName(value, 'options.userId'),
  sessionId: (value: unknown) => void parseSessionId(value as string),
  restoreFrom: checkText,
  initial: (value: unknown, field: string) =>
    checkFields(value, field, { task: () => undefined, context: () => undefined, memory: () => undefined }),
  settings: (value: unknown) => void readSettings(value as Partial<LoopSettings>),
  refresh: oneOf('in-process', 'exit'),
  drift: checkDrift,
  heartbeatMs: wholeFrom(1),
  lease: (value: unknown, field: string) => {
    checkFields(value, field, LEASE_CHECKS);
    parseTerms(givenFields(value as LeaseOptions));
  },
  prune: checkFlag,
} satisfies FieldChecks;

function checkCreateAgent(value: unknown, field: string): void {
  checkFunction(value, field);
  if (Object.prototype.toString.call(value) === '[object AsyncFunction]')
    throw refuse(`${field} is async`, [PLAIN_AGENT]);
}

const PLAIN_AGENT = 'a function that answers the agent itself; what takes time belongs before open, or into handle';

/** What an agent must have to be driven; the rest of it is its own. */
function checkAgent(agent: LoopAgent): LoopAgent {
  const name = 'what createAgent answered';
  if (!isObject(agent)) throw refuse(`${name} is ${describeValue(agent)}`, ['an agent with handle']);
  if ('then' in agent) throw refuse(`${name} is a promise`, [PLAIN_AGENT]);
  checkFunction(agent.handle, `${name}.handle`);
  if (agent.work !== undefined) checkFunction(agent.work, `${name}.work`);
  for (const [tool, parts] of partsIn(agent.tools, `${name}.tools`)) checkTool(parts, `${name}.tools.${tool}`);
  for (const [section, hooks] of partsIn(agent.sections, `${name}.sections`)) {
    oneOf(...SECTION_NAMES)(section, `a key of ${name}.sections`);
    checkMethods(hooks, `${name}.sections.${section}`, ['collect', 'restore']);
  }
  return agent;
}

/** The parts of a table of an agent; a map or a list would be taken for an empty one. */
function partsIn(table: object | undefined, name: string): [string, unknown][] {
  if (table === undefined) return [];
  if (!isObject(table) || Symbol.iterator in table) throw refuse(`${name} is ${describeValue(table)}`, ['an object']);
  return Object.entries(table).filter(([, part]) => part !== undefined);
}

function checkTool(tool: unknown, name: string): void {
  checkMethods(tool, name, ['run', 'undo']);
  checkFunction((tool as { readonly run?: unknown }).run, `${name}.run`);
}

/** Accepts an object whose methods of these names, if it has them, are functions. */
function checkMethods(value: unknown, name: string, methods: readonly string[]): void {
  if (!isObject(value)) throw refuse(`${name} is ${describeValue(value)}`, [`an object with ${methods.join(', ')}`]);
  for (const method of methods) {
    const found: unknown = Reflect.get(value, method);
    if (found !== undefined) checkFunction(found, `${name}.${method}`);
  }
}

/** Takes over what a new agent begins with; what could not be saved or read again is refused now. */
function readInitial(manager: CheckpointManager, initial: Partial<AgentMind> = {}): Partial<AgentMind> {
  const given = givenFields(initial);
  manager.engine.codec.encode(given);
  checkSections(given);
  return given;
}

function checkDrift(value: unknown, field: string): void {
  if (value === false) return;
  if (!isObject(value) || Array.isArray(value))
    throw refuse(`${field} is ${describeValue(value)}`, ['options of the detector', '{ watch }', 'false']);
  if (!('watch' in value)) return;
  const { watch } = value;
  checkFields(value, field, {
    watch: () => {
      if (!isObject(watch)) throw refuse(`${field}.watch is ${describeValue(watch)}`, ['a watch']);
    },
  });
  for (const method of WATCH_METHODS)
    checkFunction((watch as { readonly [method: string]: unknown })[method], `${field}.watch.${method}`);
}

function createWatch(given: AgentLoopOptions['drift'], now: () => number): GuardedWatch | undefined {
  if (given === false) return undefined;
  return new GuardedWatch(given !== undefined && 'watch' in given ? given.watch : new DetectorWatch(now, given));
}
