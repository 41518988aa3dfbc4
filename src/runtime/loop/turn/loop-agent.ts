import type { Draft } from 'mutative';
import { InvalidInputError } from '../../../core/errors.ts';
import {
  accepts,
  callback,
  checkValue,
  isRecord,
  type OptionCheck,
  type OptionChecks,
  options,
  record,
  recordOf,
} from '../../../core/options.ts';
import { suggest } from '../../../core/suggestion.ts';
import type { StepAttempt, StepOptions } from '../../../manager/effect/step.ts';
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

/** A tool of an agent by its name. */
export function toolOf({ tools = {} }: LoopAgent, name: string): LoopTool | undefined {
  return Object.hasOwn(tools, name) ? tools[name] : undefined;
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
  const isPromise = isRecord(agent) && 'then' in agent;
  checkValue(agent, isPromise ? accepts(PLAIN_AGENT, () => false) : AGENT, 'createAgent()');
  return agent;
}

const HOOKS = partly({ collect: callback, restore: callback });

const AGENT = partly({
  handle: { required: callback },
  work: callback,
  tools: table(recordOf(partly({ run: { required: callback }, undo: callback }))),
  sections: table(options(Object.fromEntries(SECTION_NAMES.map((name) => [name, HOOKS])))),
});

/** Accepts a plain table; a map or a list would be taken for an empty one. */
function table(check: OptionCheck): OptionCheck {
  const plain = accepts('an object', (value) => isRecord(value) && !(Symbol.iterator in value));
  return (value) => plain(value) ?? check(value);
}

/** Accepts what has these parts. Others are its own, but for what is most likely a slip: `wrok()` where there is no `work`. */
function partly(parts: OptionChecks): OptionCheck {
  const known = Object.keys(parts);
  const check = options(parts);
  return (value) => {
    if (!isRecord(value)) return record(value);
    const absent = known.filter((key) => value[key] === undefined);
    for (const key of namesIn(value)) {
      const suggestion = known.includes(key) ? undefined : suggest(key, absent, 1);
      if (suggestion !== undefined) return `has the unknown key "${key}"; did you mean "${suggestion}"?`;
    }
    return check(Object.fromEntries(known.map((key) => [key, value[key]])));
  };
}

/** The keys of a plain object; of an instance of a class the names of its methods. */
function namesIn(value: object): string[] {
  const prototype: object | null = Object.getPrototypeOf(value);
  if (prototype === null || prototype === Object.prototype) return Object.keys(value);
  const methods = Object.entries(Object.getOwnPropertyDescriptors(prototype));
  return methods.filter(([, { value: method }]) => typeof method === 'function').map(([key]) => key);
}
