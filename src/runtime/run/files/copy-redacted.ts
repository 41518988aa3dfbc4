import type { CheckpointManager } from '../../../manager/checkpoint-manager.ts';

/** A copy of a value as a checkpoint would hold it: without the secrets that are left out when it is saved. */
export function copyRedacted<Value>(manager: CheckpointManager, value: Value): Value {
  if (value === undefined) return value;
  const { codec } = manager.engine;
  return codec.decodeJson(codec.encodeJson(value)) as Value;
}
