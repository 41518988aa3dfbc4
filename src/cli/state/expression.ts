import { createContext, type Context as Sandbox, Script } from 'node:vm';
import type { Checkpoint } from '../../core/checkpoint.ts';
import { InvalidInputError } from '../../core/errors.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';

/** Longer than any sensible expression takes on a large state. */
const TIMEOUT_MS = 5_000;

/** A JavaScript expression about a checkpoint: the fields of its header by name, and its `state`. */
export class Expression {
  readonly #text: string;
  readonly #script: Script;
  readonly #needsState: boolean;

  constructor(text: string) {
    this.#text = text;
    this.#needsState = /\bstate\b/.test(text);
    try {
      this.#script = new Script(`(${text}\n)`, { filename: 'expression' });
    } catch (cause) {
      throw new InvalidInputError(`The expression ${text} cannot be read: ${messageOf(cause)}.`, { cause });
    }
  }

  /** The value of the expression; a state is loaded only if it is spoken of. */
  async evaluate(manager: CheckpointManager, checkpoint: Checkpoint): Promise<unknown> {
    const state = this.#needsState ? await manager.load(checkpoint.id) : undefined;
    try {
      return this.#script.runInContext(createSandbox(checkpoint, state), { timeout: TIMEOUT_MS });
    } catch (cause) {
      throw new InvalidInputError(`The expression ${this.#text} failed at ${checkpoint.id}: ${messageOf(cause)}.`, {
        details: { id: checkpoint.id },
        cause,
      });
    }
  }

  async isTrue(manager: CheckpointManager, checkpoint: Checkpoint): Promise<boolean> {
    return Boolean(await this.evaluate(manager, checkpoint));
  }
}

const FIELDS = [
  'type',
  'trigger',
  'status',
  'name',
  'note',
  'author',
  'reason',
  'agentId',
  'agentType',
  'userId',
] as const;

function createSandbox(checkpoint: Checkpoint, state: unknown): Sandbox {
  const { id, sessionId, branch, sequence, stateBytes, timestamp } = checkpoint;
  const said = Object.fromEntries(FIELDS.map((field) => [field, checkpoint[field]]));
  const metadata = checkpoint.metadata ?? {};
  return createContext({ ...said, id, sessionId, branch, sequence, stateBytes, timestamp, metadata, state });
}

function messageOf(error: unknown): string {
  // An error of the expression is one of its own world, so it is no instance of our Error.
  return typeof error === 'object' && error !== null && 'message' in error ? String(error.message) : String(error);
}
