import { type CheckpointPendingWrite, type PendingWrite, WRITES_IDX_MAP } from '@langchain/langgraph-checkpoint';

/** The calls of `putWrites` of one task. */
type TaskWrites = { readonly taskId: string; readonly calls: readonly PendingWrite[][] };

/** Writes as the calls that store them. Special ones have a call of their own: they would move the numbers of the ordinary ones. */
export function writesByTask(writes: readonly CheckpointPendingWrite[]): TaskWrites[] {
  const tasks = new Map<string, { special: PendingWrite[]; ordinary: PendingWrite[] }>();
  for (const [taskId, channel, value] of writes) {
    const task = tasks.get(taskId) ?? { special: [], ordinary: [] };
    tasks.set(taskId, task);
    (channel in WRITES_IDX_MAP ? task.special : task.ordinary).push([channel, value]);
  }
  return [...tasks].map(([taskId, { special, ordinary }]) => ({
    taskId,
    calls: [special, ordinary].filter((call) => call.length > 0),
  }));
}
