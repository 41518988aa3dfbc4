import type { Draft } from 'mutative';
import { InvalidInputError } from '../../../core/errors.ts';
import { accepts, callback, checkValue, isRecord, type OptionCheck, oneOf } from '../../../core/options.ts';
import { suggest } from '../../../core/suggestion.ts';
import type { StepAttempt, StepOptions } from '../../../manager/effect/effect-log.ts';
import type { DriftEvent } from '../../drift/index.ts';
import type { AgentMind, AgentTask } from '../state/agent-state.ts';
import type { Message } from '../state/mailbox.ts';
import { SECTION_NAMES, type Sections } from '../state/sections.ts';
import type { GuardOptions, Operation, OperationOutcome } from './operation.ts';

/** Something an agent can do outside, and how to take it back. Found by its name, also after a restart. */
export type LoopTool = {
  run(input: unknown, attempt: StepAttempt): unknown;
  /** Takes a finished call back when its guarded operation fails. */
  undo?(call: { readonly input: unknown; readonly result: unknown }, attempt: StepAttempt): unknown;
};

/** How a step of a turn is known again, and ended. */
export type TurnStepOptions = Pick<StepOptions, 'input' | 'signal'>;

/** One go of an agent at a message or at its task. Its changes count when it ends, and not at all when it fails. */
export interface Turn {
  /** Task, context and memory, to be changed in place; of no use after the turn. */
  readonly state: Draft<AgentMind>;
  /** 1, or more if the process died during the turn. */
  readonly attempt: number;
  /** The same in every attempt: for outside systems that know calls again. */
  readonly idempotencyKey: string;
  /** Aborts when the turn takes too long, drifts, or the loop stops. */
  readonly signal: AbortSignal;
  /** Does something outside once: when the turn is taken up again after a crash, the recorded result is returned, frozen. */
  step<Result>(
    name: string,
    run: (attempt: StepAttempt) => Promise<Result> | Result,
    options?: TurnStepOptions,
  ): Promise<Result>;
  /** Uses one of the agent's tools, as a step that the drift watch sees. */
  call(tool: string, input: unknown): Promise<unknown>;
  /** Does something risky between a `pre_operation` checkpoint and its completion, or takes it back. */
  guard<Result>(
    name: string,
    run: (operation: Operation) => Promise<Result> | Result,
    options?: GuardOptions,
  ): Promise<OperationOutcome<Result>>;
  /** Shows the drift watch something that is not a call of a tool: what a model said, how long the context is. */
  observe(event: DriftEvent): void;
}

/** What the loop drives. A new one is made at every start, refresh and restore, so nothing unsaved survives those. */
export interface LoopAgent {
  /** Handles one message. */
  handle(message: Message, turn: Turn): Promise<void> | void;
  /** Goes on with the task for a while; called again and again while its status is `active`. */
  work?(turn: Turn): Promise<void> | void;
  readonly tools?: { readonly [name: string]: LoopTool };
  /** How parts of the state come from and go to where the agent keeps them, if that is not the loop. */
  readonly sections?: Sections;
}

/** Throws if a task is to go on that nobody works at: it would stay as it is for ever. */
export function checkCanWork({ work }: LoopAgent, task: AgentTask | null): void {
  if (task?.status !== 'active' || work !== undefined) return;
  throw new InvalidInputError(
    `The task "${task.id}" is active, and the agent has no work(turn) that goes on with it. Give it one, or leave the status at "waiting" while messages are all it acts on.`,
    { details: { taskId: task.id } },
  );
}

const PLAIN_AGENT = 'a function that returns the agent itself; what takes time belongs before open, or into handle';

/** Accepts what makes an agent. */
export const agentMaker: OptionCheck = (value) =>
  Object.prototype.toString.call(value) === '[object AsyncFunction]'
    ? `must be ${PLAIN_AGENT}; found an async function`
    : callback(value);

/** What an agent must have to be driven; the rest of it is its own. */
export function checkAgent(agent: LoopAgent): LoopAgent {
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
