import type { RedactionOptions } from '../core/secret/redaction.ts';
import type { ClassCodec } from '../core/value/class-codec.ts';
import type { ValueLimits } from '../core/value/format.ts';
import type { ChunkStorage } from '../storage/contract.ts';
import type { CheckpointStorage } from '../storage/whole/checkpoint-storage.ts';
import type { AgentFactory } from './agent/agent.ts';
import type { FailureSource } from './engine/events.ts';
import type { Migration } from './engine/migrations.ts';
import type { SetTimer } from './engine/ports.ts';
import type { RetentionPolicy } from './retention/retention.ts';

/** How a manager is made. Only `storage` is needed. */
export type CheckpointManagerOptions = {
  /** One of ours, a byte-level storage of your own, or any object that can save, load and list whole checkpoints. */
  readonly storage: ChunkStorage | CheckpointStorage;
  /** Makes empty agents by type name, for `restore` without `into` or `factory`. */
  readonly agents?: { readonly [agentType: string]: AgentFactory } | undefined;
  /** Codecs for classes that may occur inside states. */
  readonly classes?: readonly ClassCodec[] | undefined;
  readonly limits?: Partial<ValueLimits> | undefined;
  /** What to keep. Default: routine, the last 3 per agent; pre_operation, until completed; recovery, 7 days or until cleared. */
  readonly retention?: RetentionPolicy | undefined;
  /** The version of the states this program saves; older ones go through `migrations` when restored. */
  readonly schemaVersion?: number | undefined;
  readonly migrations?: readonly Migration[] | undefined;
  /** Secrets are left out of checkpoints. Add keys and patterns, or, knowing what it means, switch it off. */
  readonly secrets?: RedactionOptions | 'store-secrets-in-plain-text' | undefined;
  /** Memory for making saves cheap, over all sessions; default 256 MiB. Beyond it the next save of a session costs its whole size. */
  readonly shadowBudgetBytes?: number | undefined;
  /** Gets what an event handler throws, and with `retention` why retention failed after a save; default: a process warning. */
  readonly onHandlerError?: ((error: unknown, source: FailureSource) => void) | undefined;
  /** The clock, for tests. */
  readonly now?: (() => number) | undefined;
  /** Random bytes for ids, for tests. */
  readonly random?: ((sizeBytes: number) => Uint8Array) | undefined;
  /** Timers, for tests that tell the time. */
  readonly setTimer?: SetTimer | undefined;
};
