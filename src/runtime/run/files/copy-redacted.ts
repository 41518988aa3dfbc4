import type { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { partsOf } from '../../../manager/manager-parts.ts';

/** A copy of a value as a checkpoint would hold it: without the secrets that are left out when it is saved. */
export function copyRedacted<Value>(manager: CheckpointManager, value: Value): Value {
  if (value === undefined) return value;
  const { codec } = partsOf(manager).context;
  return codec.decodeJson(codec.encodeJson(value)) as Value;
}
