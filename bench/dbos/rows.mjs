import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createFsyncProbe, interleave, ratioOf, summarise } from '../measure.mjs';
import { startPostgres } from '../postgres-server.mjs';
import { formatMs } from '../report.mjs';
import { DBOS_STEP, SESSION_STEP, SIDES, WORKFLOW_STEP } from './sides.mjs';

export const steps = {
  id: 'dbos-steps',
  title: 'one recorded step of a loop, PostgreSQL, fsync on',
  run: onServer(measureSteps),
};

export const resume = {
  id: 'dbos-resume',
  title: 'killed in a late step: a new process from its start until its first new step',
  run: onServer(measureResumes),
};

/** Steps of one turn, after so many that are not timed. */
const STEPS = 60;
const WARMUP_STEPS = 10;
const MAX_RESUME_MS = 1_000;

/** A row whose measurement is given `createDatabase`, on a server that stops at its end. */
function onServer(measure) {
  return async ({ report, isQuick, folder }) => {
    const server = await startPostgres();
    let databases = 0;
    const createDatabase = async () => {
      const name = `bench_${++databases}`;
      await server.createDatabase(name);
      return server.url.replace(/[^/]+$/, name);
    };
    try {
      await measure({ report, isQuick, folder, createDatabase });
    } finally {
      await server.stop();
    }
  };
}

/** One server with its default durability, the sides in turns, steps that do nothing. */
async function measureSteps({ report, isQuick, folder, createDatabase }) {
  const open = {};
  for (const name of Object.keys(SIDES)) open[name] = await SIDES[name](await createDatabase());
  const probe = createFsyncProbe(folder);
  let turns = 0;
  const turn = (name) => ({
    measure: async () => {
      const times = [];
      await open[name].run(`turn ${turns++}`, STEPS, (at) => times.push(performance.now()) && at);
      return (times.at(-1) - times[WARMUP_STEPS]) / (times.length - 1 - WARMUP_STEPS);
    },
  });
  const sides = Object.fromEntries(Object.keys(open).map((name) => [name, turn(name)]));
  const measured = await interleave({ ...sides, 'fsync probe': probe }, { rounds: isQuick ? 5 : 40, warmup: 3 });
  probe.close();
  for (const { close } of Object.values(open)) await close();
  for (const [name, atMost] of Object.entries({ [SESSION_STEP]: 0.7, [WORKFLOW_STEP]: 0.9 }))
    report.line({
      what: `${name} ÷ ${DBOS_STEP}`,
      ...ratioOf(measured[name], measured[DBOS_STEP]),
      target: { atMost },
      sides: { [name]: measured[name], [DBOS_STEP]: measured[DBOS_STEP], 'fsync probe': measured['fsync probe'] },
    });
}

/** A process that was killed in a late step; measured is the next one, from its start until it runs that step. */
async function measureResumes({ report, isQuick, createDatabase }) {
  const [count, diesAt] = isQuick ? [300, 280] : [5_000, 4_900];
  report.note(`killed in step ${diesAt} of ${count}`);
  for (const name of Object.keys(SIDES)) {
    const samples = [];
    for (let round = 0; round < (isQuick ? 1 : 3); round++) {
      const job = { name, url: await createDatabase(), count };
      await runChild({ ...job, diesAt });
      const { tookMs, said } = await runChild(job);
      if (Number(said) !== diesAt) throw new Error(`${name} went on at step ${said}, not ${diesAt}.`);
      samples.push(tookMs);
    }
    const { median, p10 } = summarise(samples);
    const target = !isQuick && name !== DBOS_STEP && { target: { atMost: MAX_RESUME_MS } };
    report.line({ what: name, ratio: median, ratioP10: p10, unit: ' ms', ...target, figures: [formatMs(median)] });
  }
}

async function runChild(job) {
  const startMs = performance.now();
  const child = spawn(process.execPath, [join(import.meta.dirname, 'resume-child.mjs'), JSON.stringify(job)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  let tookMs = 0;
  child.stdout.on('data', (data) => {
    tookMs ||= performance.now() - startMs;
    said += data;
  });
  await new Promise((resolve) => child.once('close', resolve));
  return { said, tookMs };
}
