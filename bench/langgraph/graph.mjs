import { ratioOf, summarise } from '../measure.mjs';
import { inArena } from './arena.mjs';

export const graph = {
  id: 'langgraph-graph',
  title: 'a real StateGraph of one node, default durability: the run with a checkpointer ÷ the run without',
  run: inArena(measureRuns),
};

const BARE = 'no checkpointer';
/** It shows how much of a ratio is LangGraph's own: what it does more as soon as there is a checkpointer. */
const FLOOR = 'a saver of nothing';
const OURS = ['our SQLite, process-safe', 'our SQLite, power-safe', 'our memory', 'our PostgreSQL'];
const LIMIT = { atMost: 1.15 };
/** The power-safe and PostgreSQL runs wait for a disk or server that other runs do not have. */
const JUDGED = 'our SQLite, process-safe';
/** How long a node waits for its model: a twentieth of what the fastest take. LangGraph saves meanwhile; that is its default durability. */
const MODEL_MS = 5;

async function measureRuns({ arena, report, isQuick }) {
  const rounds = isQuick ? 1 : 5;
  const steps = isQuick ? 300 : 2_000;
  const names = [BARE, FLOOR, ...OURS];
  report.heading(`langgraph-graph  nodes that wait ${MODEL_MS} ms for a model`);
  await compare({ arena, report, rounds: isQuick ? 1 : 3, steps, waitMs: MODEL_MS, names, target: LIMIT });
  report.heading('langgraph-graph  nodes that wait for nothing, so that every save is on top');
  await compare({ arena, report, rounds, steps, names });
  await compare({
    arena,
    report,
    rounds: isQuick ? 1 : 3,
    steps: isQuick ? 100 : 500,
    names: [BARE, FLOOR, JUDGED, 'official SQLite'],
  });
}

async function compare({ arena, report, rounds, steps, waitMs = 0, names, target }) {
  const jobs = names.map((name) => ({ name, steps, waitMs }));
  const results = await arena.takeTurns({ script: 'graph-child.mjs', jobs, rounds });
  const totals = (name) => summarise(results[name].map(({ totalMs }) => totalMs));
  for (const name of names.filter((other) => other !== BARE)) {
    report.line({
      what: `${steps.toLocaleString('en')} steps: ${name} ÷ ${BARE}`,
      ...ratioOf(totals(name), totals(BARE)),
      ...(name === JUDGED && target !== undefined && { target }),
      sides: {
        [name]: totals(name),
        [BARE]: totals(BARE),
        'fsync probe': summarise(results[name].map(({ probe }) => probe.median)),
      },
    });
  }
}
