import { withoutUndefined } from '../core/defined.ts';
import { linkChunk } from '../core/diff/linked.ts';
import type { RecordedEffect } from '../manager/effect/effect-record.ts';
import { fieldsOf } from '../manager/revision/transcript.ts';

/** A recorded call as JSON, without its result. */
export function toEffect({ result, ...record }: RecordedEffect) {
  const { branch, ordinal, name, status, attempt, idempotencyKey, work, afterId, startedAtMs, durationMs } = record;
  const { replayedFrom } = record;
  const place = withoutUndefined({ work, afterId, durationMs, replayedFrom });
  const effect = { branch, ordinal, name, status, attempt, idempotencyKey, startedAtMs, ...place };
  return { ...effect, resultBytes: result?.text.length ?? 0, ...readUsage(result) };
}

/** What the reply of a model says about itself; its parts need not be read for that. */
function readUsage(result: RecordedEffect['result']) {
  if (result === undefined || !result.text.includes('"usage"')) return {};
  const { usage, model, costUsd } = fieldsOf(linkChunk(result));
  const { inputTokens, outputTokens } = fieldsOf(usage);
  return {
    ...(typeof model === 'string' && { model }),
    ...(typeof inputTokens === 'number' && { inputTokens }),
    ...(typeof outputTokens === 'number' && { outputTokens }),
    ...(typeof costUsd === 'number' && { costUsd }),
  };
}
