import type { AgentFactory } from './agent/agent.ts';
import type { EngineOptions } from './engine/engine.ts';
import type { RetentionPolicy } from './retention/retention.ts';

/** How a manager is made. Only `storage` is needed. */
export type CheckpointManagerOptions = EngineOptions & {
  /** Makes empty agents by type name, for `restore` without `into` or `factory`. */
  readonly agents?: { readonly [agentType: string]: AgentFactory } | undefined;
  /** What to keep. Default: routine, the last 3 per agent; pre_operation, until completed; recovery, 7 days or until cleared. */
  readonly retention?: RetentionPolicy | undefined;
};
