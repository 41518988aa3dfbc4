import { CheckpointManager, SqliteCheckpointStorage } from '../../dist/index.js';
import { defineWorkflow, WorkflowExecutor } from '../../dist/runtime/workflow/index.js';
import { createFsyncProbe, ratioOf, summarise } from '../measure.mjs';
import { createMessage } from '../messages.mjs';
import { openRaw } from '../raw-sqlite.mjs';
import { formatMs } from '../report.mjs';
import { DURABILITIES } from '../workbench.mjs';

export const workflowSteps = {
  id: 'workflow',
  title: 'a workflow of 5,000 steps beside a plain loop with one SQLite insert per step',
  run,
};

const STEPS = 5000;
const RESUME_AT = 0.98;
/** The first steps are slow because the code is cold, not because the run is short. */
const COLD = 0.02;

async function run(workbench) {
  const steps = workbench.isQuick ? STEPS / 10 : STEPS;
  for (const { durability, synchronous, label } of DURABILITIES) {
    for (const checkpoint of [false, true]) {
      const saved = checkpoint ? 'a checkpoint after each' : 'recorded steps';
      const options = { workflow: createWorkflow(steps, checkpoint), durability, synchronous, steps };
      const { first, last, insert, probe } = await timeSteps(workbench, options);
      workbench.report.line({
        what: `last tenth ÷ first tenth, ${saved}, ${label}`,
        ...ratioOf(last, first),
        target: { atMost: 1.3 },
        sides: { 'last tenth': last, 'first tenth': first, 'plain insert': insert, 'fsync probe': probe },
      });
      const at = Math.floor(steps * RESUME_AT);
      const { resumeMs, reads } = await timeResume(workbench, { ...options, at });
      workbench.report.note(`resume at step ${at}: ${formatMs(resumeMs)} until it runs, ${reads} reads of the storage`);
    }
  }
}

function createWorkflow(count, checkpoint) {
  const steps = Array.from({ length: count }, (_, at) => ({ id: `step-${at}`, function: 'work', input: at }));
  return defineWorkflow({ workflow: { name: 'long', checkpoint }, steps });
}

/** Beside every step there are the plain loop's insert and the probe, so that the machine treats all alike. */
async function timeSteps(workbench, { workflow, durability, synchronous, steps }) {
  const raw = openRaw(workbench.newPath(), synchronous);
  const probe = createFsyncProbe(workbench.folder);
  const times = { step: [], insert: [], probe: [] };
  let endedAt = performance.now();
  const work = (at) => {
    times.step.push(performance.now() - endedAt);
    const message = createMessage(at, 5);
    times.insert.push(time(() => raw.insert(JSON.stringify(message))));
    if (at % 10 === 0) times.probe.push(time(() => probe.run()));
    endedAt = performance.now();
    return message;
  };
  const { executor } = openExecutor(workbench.newPath(), durability, work);
  await executor.run({ workflow });
  await executor.manager.close();
  raw.close();
  probe.close();
  return {
    first: summarise(times.step.slice(steps * COLD, steps / 10)),
    last: summarise(times.step.slice(-steps / 10)),
    insert: summarise(times.insert),
    probe: summarise(times.probe),
  };
}

/** A run that stops at a step as if its process had died, and what the next process takes until that step runs. */
async function timeResume(workbench, { workflow, durability, at }) {
  const path = workbench.newPath();
  const died = new AbortController();
  const before = openExecutor(path, durability, (step) => {
    if (step === at) died.abort();
    died.signal.throwIfAborted();
    return createMessage(step, 5);
  });
  await before.executor.run({ workflow, sessionId: 'long', signal: died.signal }).catch(() => undefined);
  await before.executor.manager.close();

  let found;
  const after = openExecutor(path, durability, (step) => {
    found ??= { step, resumeMs: performance.now() - begunAt, reads: after.counter.reads };
    return createMessage(step, 5);
  });
  const begunAt = performance.now();
  await after.executor.run({ workflow, sessionId: 'long' });
  await after.executor.manager.close();
  if (found.step !== at) throw new Error(`It resumed at step ${found.step} instead of ${at}.`);
  return found;
}

function openExecutor(path, durability, work) {
  const counter = { reads: 0 };
  const storage = countReads(new SqliteCheckpointStorage({ path, durability }), counter);
  const manager = new CheckpointManager({ storage });
  return { executor: new WorkflowExecutor({ manager, registry: { functions: { work } } }), counter };
}

function countReads(storage, counter) {
  return new Proxy(storage, {
    get(target, name) {
      const value = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      if (/^(read|list)/.test(String(name))) counter.reads++;
      return value.bind(target);
    },
  });
}

function time(run) {
  const start = performance.now();
  run();
  return performance.now() - start;
}
