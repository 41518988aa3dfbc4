import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import {
  accepts,
  anything,
  callback,
  checkOptions,
  checkValue,
  delayFrom,
  filledString,
  flag,
  having,
  isRecord,
  type Optional,
  type OptionCheck,
  type OptionChecks,
  oneOf,
  options as optionsOf,
} from '../../core/options.ts';
import { name } from '../../core/record/id.ts';
import { suggest } from '../../core/suggestion.ts';
import { leaseOptions, manager } from '../../manager/call-options.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { LeaseOptions } from '../../manager/lease/lease-acquisition.ts';
import { type DriftOptions, driftOptions } from '../drift/step/drift-options.ts';
import type { AgentIdentity } from './agent-checkpoints.ts';
import { type LoopSettings, loopSettings, readSettings } from './loop-settings.ts';
import type { AgentMind } from './state/agent-state.ts';
import { checkSections, completeSections, SECTION_NAMES } from './state/sections.ts';
import { DetectorWatch, type DriftWatch, GuardedWatch } from './turn/drift-watch.ts';
import type { LoopAgent } from './turn/loop-agent.ts';

/** How a loop is made. */
export type AgentLoopOptions = AgentIdentity & {
  /** Its clock and timers are the loop's, too. */
  readonly manager: CheckpointManager;
  /** Makes the agent: at the start, at a refresh, and after a drift. */
  readonly createAgent: () => LoopAgent;
  /** Default: the agent's id. */
  readonly sessionId?: string | undefined;
  /**
   * Brings the agent back, when it runs, to what it knew at this checkpoint of its session; its messages do not go back. For one
   * call, not for every start: see `docs/LOOP.md`.
   */
  readonly restoreFrom?: string | undefined;
  /** What a new agent begins with; fields of the context and of the memory that are left out begin empty. */
  readonly initial?: InitialMind | undefined;
  readonly settings?: Optional<LoopSettings> | undefined;
  /** `exit` ends the run at a refresh, for a supervisor that starts a new process. Default: `in-process`. */
  readonly refresh?: 'in-process' | 'exit' | undefined;
  /** The built-in detector with these options, a watch of your own, or none. Default: the detector. */
  readonly drift?: DriftOptions | { readonly watch: DriftWatch } | false | undefined;
  /** Tells a heartbeat this often, unless a turn is overdue. Default: never. */
  readonly heartbeatMs?: number | undefined;
  /** Keeps other processes from driving the same agent. */
  readonly lease?: LeaseOptions | undefined;
  /** Whether the retention policy is applied after each routine checkpoint, and space given back. Default: true. */
  readonly prune?: boolean | undefined;
};

/** What a new agent begins with, as far as it is given. */
export type InitialMind = {
  readonly task?: AgentMind['task'] | undefined;
  readonly context?: Optional<AgentMind['context']> | undefined;
  readonly memory?: Optional<AgentMind['memory']> | undefined;
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
  checkOptions(options, OPTIONS, 'AgentLoop.open()');
  const { agentId, agentType, userId, sessionId = agentId } = options;
  return {
    manager: options.manager,
    identity: { agentId, ...(agentType !== undefined && { agentType }), ...(userId !== undefined && { userId }) },
    sessionId,
    restoreFrom: options.restoreFrom,
    createAgent: () => checkAgent(options.createAgent()),
    initial: readInitial(options.manager, options.initial),
    settings: readSettings(options.settings),
    watch: createWatch(options.drift, options.manager.engine.ports.now),
    lease: options.lease,
    refreshMode: options.refresh ?? 'in-process',
    heartbeatMs: options.heartbeatMs,
    isPruning: options.prune ?? true,
  };
}

const watch = having('observe', 'assess', 'snapshot', 'restore', 'reset');

const drift: OptionCheck = (value) => {
  if (value === false) return undefined;
  if (!isRecord(value)) return accepts('options of the detector, { watch } or false', isRecord)(value);
  return 'watch' in value ? optionsOf({ watch: { required: watch } })(value) : driftOptions(value);
};

const createAgent: OptionCheck = (value) =>
  Object.prototype.toString.call(value) === '[object AsyncFunction]'
    ? `must be ${PLAIN_AGENT}; found an async function`
    : callback(value);

const PLAIN_AGENT = 'a function that returns the agent itself; what takes time belongs before open, or into handle';

const OPTIONS = {
  manager: { required: manager },
  agentId: { required: name },
  createAgent: { required: createAgent },
  agentType: name,
  userId: name,
  sessionId: name,
  restoreFrom: filledString,
  initial: optionsOf({
    task: anything,
    context: optionsOf({
      goals: anything,
      constraints: anything,
      decisions: anything,
      notes: anything,
    } satisfies OptionChecks<AgentMind['context']>),
    memory: optionsOf({ shortTerm: anything, session: anything } satisfies OptionChecks<AgentMind['memory']>),
  } satisfies OptionChecks<AgentMind>),
  settings: loopSettings,
  refresh: oneOf('in-process', 'exit'),
  drift,
  heartbeatMs: delayFrom(1),
  lease: leaseOptions,
  prune: flag,
} satisfies OptionChecks<AgentLoopOptions>;

/** What an agent must have to be driven; the rest of it is its own. */
function checkAgent(agent: LoopAgent): LoopAgent {
  const of = 'createAgent()';
  checkValue(agent, accepts('an agent with handle()', isRecord), of);
  checkValue(
    agent,
    accepts(PLAIN_AGENT, (value) => isRecord(value) && !('then' in value)),
    of,
  );
  checkValue(agent.handle, callback, `${of}.handle`);
  if (agent.work !== undefined) checkValue(agent.work, callback, `${of}.work`);
  checkNames(agent, of, ['handle', 'work', 'tools', 'sections']);
  for (const [tool, parts] of partsIn(agent.tools, `${of}.tools`)) checkTool(parts, `${of}.tools.${tool}`);
  for (const [section, hooks] of partsIn(agent.sections, `${of}.sections`)) {
    checkValue(section, oneOf(...SECTION_NAMES), `A key of ${of}.sections`);
    checkMethods(hooks, `${of}.sections.${section}`, ['collect', 'restore']);
  }
  return agent;
}

/** The parts of a table of an agent; a map or a list would be taken for an empty one. */
function partsIn(table: object | undefined, of: string): [string, unknown][] {
  if (table === undefined) return [];
  checkValue(
    table,
    accepts('an object', (value) => isRecord(value) && !(Symbol.iterator in value)),
    of,
  );
  return Object.entries(table).filter(([, part]) => part !== undefined);
}

function checkTool(tool: unknown, of: string): void {
  checkMethods(tool, of, ['run', 'undo']);
  checkValue((tool as { readonly run?: unknown }).run, callback, `${of}.run`);
}

/** Accepts an object whose methods of these names, if it has them, are functions. */
function checkMethods(value: unknown, of: string, methods: readonly string[]): void {
  checkValue(value, accepts(`an object with ${methods.join(', ')}`, isRecord), of);
  checkNames(value as object, of, methods);
  for (const method of methods) {
    const found: unknown = Reflect.get(value as object, method);
    if (found !== undefined) checkValue(found, callback, `${of}.${method}`);
  }
}

/** Refuses what is most likely a slip: `wrok()` where there is no `work`. Other names, and data of a class, are the agent's own. */
function checkNames(value: object, of: string, known: readonly string[]): void {
  const absent = known.filter((key) => Reflect.get(value, key) === undefined);
  for (const key of namesIn(value)) {
    const suggestion = known.includes(key) ? undefined : suggest(key, absent, 1);
    if (suggestion !== undefined)
      throw new InvalidInputError(`${of} has an unknown key "${key}"; did you mean "${suggestion}"?`, {
        details: { key },
      });
  }
}

/** The keys of a plain object; of an instance of a class the names of its methods. */
function namesIn(value: object): string[] {
  const prototype: object | null = Object.getPrototypeOf(value);
  if (prototype === null || prototype === Object.prototype) return Object.keys(value);
  const methods = Object.entries(Object.getOwnPropertyDescriptors(prototype));
  return methods.filter(([, { value: method }]) => typeof method === 'function').map(([key]) => key);
}

/** Takes over what a new agent begins with; what could not be saved or read again is refused now. */
function readInitial(checkpoints: CheckpointManager, initial: InitialMind = {}): Partial<AgentMind> {
  const given = completeSections(withoutUndefined(initial));
  checkpoints.engine.codec.encode(given);
  checkSections(given);
  return given;
}

function createWatch(given: AgentLoopOptions['drift'], now: () => number): GuardedWatch | undefined {
  if (given === false) return undefined;
  return new GuardedWatch(given !== undefined && 'watch' in given ? given.watch : new DetectorWatch(now, given));
}
