import pg from 'pg';
import { CheckpointManager } from '../../dist/index.js';
import { PostgresCheckpointStorage } from '../../dist/storage/postgres/index.js';
import { createFsyncProbe, interleave, ratioOf } from '../measure.mjs';
import { createMessage } from '../messages.mjs';
import { startPostgres } from '../postgres-server.mjs';
import { frozenState, GrowingSession, LONG, longState } from '../workbench.mjs';

export const postgres = {
  id: 'postgres',
  title: 'PostgreSQL: the same server and durability on both sides, everything on one machine',
  run,
};

const SHORT = 100;
/** A session is replaced before it has grown by half. */
const SAVES_AT_SHORT = 50;
const CONCURRENT = 16;
const STEPS = 5_000;
const INSERT = 'INSERT INTO raw(session, text) VALUES ($1, $2)';

async function run(workbench) {
  const server = await startPostgres();
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  await client.query('CREATE TABLE raw(id bigserial PRIMARY KEY, session text NOT NULL, text text NOT NULL)');
  try {
    await savesBesideInserts(workbench, server, client);
    await manySessions(workbench, server);
    await resumes(workbench, server, client);
  } finally {
    await client.end();
    await server.stop();
  }
}

function openManager({ url }, tenant) {
  return new CheckpointManager({ storage: new PostgresCheckpointStorage({ connectionString: url, tenant }) });
}

/** Saves at both lengths and the bare insert of the same message take turns in one loop. */
async function savesBesideInserts(workbench, server, client) {
  const manager = openManager(server, 'saves');
  const probe = createFsyncProbe(workbench.folder);
  const long = await growing(manager, LONG, 1);
  let short;
  let made = 0;
  const atShort = {
    prepare: async () => {
      if (made++ % SAVES_AT_SHORT === 0) short = await growing(manager, SHORT, 1000 + made);
      return short.grow();
    },
    run: (state) => short.side.run(state),
  };
  const insert = {
    prepare: (round) => JSON.stringify(createMessage(LONG + round, 7)),
    run: (text) => client.query({ name: 'insert', text: INSERT, values: ['long', text] }),
  };
  const sides = await interleave(
    { 'save at 5,000': long.side, 'save at 100': atShort, insert, 'fsync probe': probe },
    { rounds: workbench.rounds(400), warmup: 40 },
  );
  probe.close();
  await manager.close();
  const what = { sides };
  workbench.report.line({
    what: 'save ÷ bare INSERT of the new message, at message 5,000',
    ...ratioOf(sides['save at 5,000'], sides.insert),
    target: { atMost: 1.75 },
    ...what,
  });
  workbench.report.line({
    what: 'save at message 5,000 ÷ at message 100',
    ...ratioOf(sides['save at 5,000'], sides['save at 100']),
    target: { atMost: 1.3 },
  });
}

async function growing(manager, count, seed) {
  const session = await manager.session(`session ${count} ${seed}`);
  const state = longState(count, seed);
  await session.save(state);
  return new GrowingSession(session, state, seed);
}

/** Sixteen writers that never wait for each other, and the same number of bare inserters on as many connections. */
async function manySessions(workbench, server) {
  const manager = openManager(server, 'many');
  const pool = new pg.Pool({ connectionString: server.url, max: CONCURRENT });
  const writers = await Promise.all(
    Array.from({ length: CONCURRENT }, async (_, seed) => {
      const session = await manager.session(`writer ${seed}`);
      const state = frozenState([]);
      await session.save(state);
      return new GrowingSession(session, state, seed);
    }),
  );
  const saves = {
    prepare: () => writers.map((writer) => writer.grow()),
    run: (states) => Promise.all(states.map((state, at) => writers[at].side.run(state))),
  };
  const inserts = {
    prepare: (round) => writers.map((_, at) => JSON.stringify(createMessage(round, at))),
    run: (texts) =>
      Promise.all(texts.map((text) => pool.query({ name: 'insert', text: INSERT, values: ['many', text] }))),
  };
  const sides = await interleave({ saves, inserts }, { rounds: workbench.rounds(200), warmup: 20 });
  await pool.end();
  await manager.close();
  const perSecond = ({ median }) => Math.round((CONCURRENT * 1000) / median);
  workbench.report.line({
    what: `${CONCURRENT} sessions at once: commits/s ÷ bare inserts/s on ${CONCURRENT} connections`,
    ratio: sides.inserts.median / sides.saves.median,
    ratioP10: sides.inserts.p10 / sides.saves.p10,
    sides,
    figures: [`${perSecond(sides.saves)} commits/s`, `${perSecond(sides.inserts)} inserts/s`],
  });
}

/** A session whose process died after 5,000 steps; the other side reads the same rows and nothing else. */
async function resumes(workbench, server, client) {
  const manager = openManager(server, 'steps');
  const session = await manager.session('steps');
  await Promise.all(
    Array.from({ length: STEPS }, (_, at) => session.step('search', () => ({ found: `result ${at}` }))),
  );
  await session.close();
  const resume = {
    run: async () => {
      const resumed = await manager.session('steps');
      await resumed.step('search', () => {
        throw new Error('a finished step ran again');
      });
      await resumed.close();
    },
  };
  const select = {
    run: () =>
      client.query(
        "SELECT branch, ordinal, encode(digest, 'hex') AS digest, body, text FROM savestate.effect WHERE tenant = 'steps' ORDER BY ordinal",
      ),
  };
  await client.query("SELECT set_config('savestate.tenant', 'steps', false)");
  const sides = await interleave({ resume, select }, { rounds: workbench.rounds(20), warmup: 2 });
  await manager.close();
  workbench.report.line({
    what: `resume of a session with ${STEPS} recorded steps ÷ reading their rows`,
    ...ratioOf(sides.resume, sides.select),
    sides,
  });
}
