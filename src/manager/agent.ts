import type { Checkpoint } from '../core/checkpoint.ts';
import { InvalidInputError, NotFoundError } from '../core/errors.ts';
import { MAX_NAME_CHARS } from '../core/id.ts';
import { SecretRef } from '../core/secret-ref.ts';
import type { StateCodec } from '../core/state-codec.ts';
import type { RestoreProblem } from './restore-report.ts';
import { MAX_VALUE_CHARS, type SaveOptions } from './save-options.ts';

/** What an agent may implement to say itself what its state is. */
export interface StatefulAgent {
  /** Answers everything to be saved; called at the moment of the save. */
  saveState(): unknown;
  /** Takes a saved state over; may answer what could not be put back. */
  loadState(state: unknown): undefined | readonly RestoreProblem[] | Promise<undefined | readonly RestoreProblem[]>;
}

/** Makes an empty agent that a checkpoint is then restored into. Code cannot be saved, so it is looked up by name. */
export type AgentFactory = (checkpoint: Checkpoint) => object;

type Fields = Record<string, unknown>;

/** Agent types by the name their checkpoints carry. */
export class AgentTypes {
  readonly #factories = new Map<string, AgentFactory>();

  constructor(factories: { readonly [agentType: string]: AgentFactory } = {}) {
    for (const [name, factory] of Object.entries(factories)) this.register(name, factory);
  }

  register(agentType: string, factory: AgentFactory): void {
    if (typeof factory !== 'function') {
      throw new InvalidInputError(
        `Agent type "${agentType}" needs a function that makes an agent; found ${typeof factory}.`,
      );
    }
    this.#factories.set(agentType, factory);
  }

  create(checkpoint: Checkpoint, agentType: string): object {
    const factory = this.#factories.get(agentType);
    if (factory !== undefined) return factory(checkpoint);
    const known = [...this.#factories.keys()].sort().join(', ') || 'none';
    throw new NotFoundError(
      `Checkpoint ${checkpoint.id} is of agent type "${agentType}", which is not registered (registered: ${known}). Register it, or pass into or factory.`,
      { details: { agentType } },
    );
  }
}

/** Whether this is an agent rather than a state: anything with `saveState`, or an instance of a class that is not itself a value. */
export function isAgent(value: unknown, codec: StateCodec): value is object {
  if (typeof value !== 'object' || value === null) return false;
  return hasMethod(value, 'saveState') || !codec.isValue(value);
}

/** The state of an agent, or the value itself if it is one already. */
export function stateOf(value: unknown, codec: StateCodec): unknown {
  if (!isAgent(value, codec)) return value;
  return hasMethod(value, 'saveState') ? (value as StatefulAgent).saveState() : { ...value };
}

const NAMES = ['userId', 'status', 'contextSummary'] as const;
const VALUES = ['collectedFields', 'requiredFields'] as const;

/** What an agent, or a plain state, says about itself, where the caller did not say it. Takes only what fits a header. */
export function describeAgent(value: unknown, codec: StateCodec): SaveOptions {
  if (typeof value !== 'object' || value === null) return {};
  const fields = value as Fields;
  const id = fields.agentId ?? fields.id;
  const described: Fields = isName(id) ? { agentId: id } : {};
  for (const field of NAMES) if (isName(fields[field])) described[field] = fields[field];
  return (isAgent(value, codec) ? { ...described, ...describeInstance(fields, codec) } : described) as SaveOptions;
}

function describeInstance(fields: Fields, codec: StateCodec): Fields {
  const described: Fields = { agentType: isName(fields.agentType) ? fields.agentType : fields.constructor.name };
  for (const field of VALUES) if (fits(fields[field], codec)) described[field] = fields[field];
  return described;
}

function isName(value: unknown): boolean {
  return typeof value === 'string' && value !== '' && value.length <= MAX_NAME_CHARS;
}

function fits(value: unknown, codec: StateCodec): boolean {
  return value !== undefined && value !== null && JSON.stringify(codec.encodeJson(value)).length <= MAX_VALUE_CHARS;
}

/** Puts a state back into an agent; answers what could not be put back. */
export async function loadInto(agent: object, state: unknown): Promise<readonly RestoreProblem[]> {
  if (hasMethod(agent, 'loadState')) return (await (agent as StatefulAgent).loadState(state)) ?? [];
  if (typeof state !== 'object' || state === null || Array.isArray(state)) {
    throw new InvalidInputError(
      'Only a state made of named fields can be put into an agent without a loadState method.',
    );
  }
  for (const key of Object.keys(agent)) if (!Object.hasOwn(state, key)) delete (agent as Fields)[key];
  return Object.entries(state).flatMap(([key, value]) => setField(agent, key, value));
}

function setField(agent: object, key: string, value: unknown): RestoreProblem[] {
  if (value instanceof SecretRef) return []; // reported with all left-out secrets; the agent keeps what it has
  const isSet = Reflect.defineProperty(agent, key, { value, writable: true, enumerable: true, configurable: true });
  return isSet ? [] : [{ path: `$.${key}`, problem: 'The agent does not let this field be set.' }];
}

function hasMethod(value: object, name: string): boolean {
  return typeof (value as Fields)[name] === 'function';
}
