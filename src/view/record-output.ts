import { withoutUndefined } from '../core/defined.ts';
import { linkChunk } from '../core/diff/linked.ts';
import type { Checkpoint } from '../core/record/checkpoint.ts';
import type { RecordedEffect } from '../manager/effect/effect-record.ts';
import type { Engine } from '../manager/engine/engine.ts';
import { fieldsOf } from '../manager/revision/transcript.ts';
import type { Memory } from '../memory/memory.ts';
import { toJsonForm } from './json-form.ts';
import type { memory, memoryReasons, Shape } from './shapes.ts';

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

/** The same with what the call returned, or the error it threw. */
export async function toWholeEffect({ codec, repository }: Engine, effect: RecordedEffect) {
  const { result } = effect;
  const value: unknown = result && codec.decode(result, await repository.loadChunks(result));
  return { ...toEffect(effect), ...(result !== undefined && { result: toJsonForm(value) ?? null }) };
}

/** How many calls of a branch were recorded at a checkpoint; none on any other branch. */
export function recordedAt(checkpoint: Checkpoint | undefined, branch: string): number {
  return checkpoint?.branch === branch ? (checkpoint.header.effectCount ?? 0) : 0;
}

/** A memory as commands and the server give it. */
export type MemoryOutput = Shape<typeof memory>;

/** Why a memory exists, as they give that. */
export type MemoryReasons = Shape<typeof memoryReasons>;

type Selection = Parameters<Memory['getAll']>[0];
type Search = Parameters<Memory['search']>[1];
type View = NonNullable<Parameters<Memory['why']>[1]>;

/** What is looked at in a memory, here or at a server. */
export interface ViewedMemory {
  /** Absent of one at a server. */
  readonly own?: Memory;
  /** The newest last. */
  list(selection: Selection): Promise<readonly MemoryOutput[]>;
  /** The best first. */
  search(text: string, options: Search): Promise<readonly MemoryOutput[]>;
  why(id: string, view: View): Promise<MemoryReasons>;
  close(): Promise<unknown>;
}

/** A memory at hand, to look at. */
export function viewMemory(memory: Memory): ViewedMemory {
  return {
    own: memory,
    list: async (selection) => (await memory.getAll(selection)).map(toOutput),
    search: async (text, options) => (await memory.search(text, options)).results.map(toOutput),
    why: async (id, view) => toReasons(await memory.why(id, view)),
    close: () => memory.close(),
  };
}

type Remembered = Awaited<ReturnType<Memory['getAll']>>[number] & { readonly score?: number };

function toOutput(record: Remembered): MemoryOutput {
  const { id, memory, kind, subject, slot, userId, agentId, trust, reinforcements, supersededBy, score } = record;
  const about = { id, memory, kind, subject, trust, reinforcements, observedAt: record.observedAt.toISOString() };
  return { ...about, ...withoutUndefined({ slot, userId, agentId, supersededBy, score }) };
}

function toReasons({ id, memory, supersededBy, sources }: Awaited<ReturnType<Memory['why']>>): MemoryReasons {
  return {
    id,
    memory: memory?.memory ?? null,
    ...withoutUndefined({ record: memory && toOutput(memory), supersededBy }),
    sources: sources.map(({ operation, at, status, isVisible, turns, sessionId, branch, checkpointId }) => ({
      operation,
      at: at.toISOString(),
      status,
      isVisible,
      turns: turns.map((turn) => turn.memory),
      ...withoutUndefined({ sessionId, branch, checkpointId }),
    })),
  };
}
