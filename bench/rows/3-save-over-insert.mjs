import { statSync } from 'node:fs';
import { createFsyncProbe, interleave, ratioOf } from '../measure.mjs';
import { openRaw } from '../raw-sqlite.mjs';
import { DURABILITIES, reopenLong } from '../workbench.mjs';

export const row3 = {
  id: 'row3',
  title: 'save ÷ raw SQLite insert of the new message alone, draft-made state, at message 5,000',
  run,
};

/** As many pages as both sides collect before they copy the log into the file. */
const LOG_PAGES = 2000;
const PAGE_BYTES = 4096;

const TARGETS = { power: 2, process: 5 };

async function run(workbench) {
  for (const { durability, synchronous, label } of DURABILITIES) {
    const probe = createFsyncProbe(workbench.folder);
    const { path, manager, growing } = await reopenLong(workbench, { durability, seed: 3 });
    const rawPath = workbench.newPath();
    const raw = openRaw(rawPath, synchronous);
    fillRaw(raw, growing.state.messages);
    while (!hasFullLog(rawPath)) fillRaw(raw, growing.state.messages.slice(-100));
    while (!hasFullLog(path)) await growing.side.run(growing.grow());
    // The side that goes first in a round grows the state, so that both write the same message.
    const made = new Map();
    const stateOf = (round) => {
      if (!made.has(round)) made.clear();
      if (!made.has(round)) made.set(round, growing.grow());
      return made.get(round);
    };
    const insert = { prepare: (round) => JSON.stringify(stateOf(round).messages.at(-1)), run: raw.insert };
    const save = { prepare: stateOf, run: growing.side.run };
    const sides = await interleave(
      { save, insert, 'fsync probe': probe },
      { rounds: workbench.rounds(400), warmup: 30 },
    );
    await manager.close();
    raw.close();
    probe.close();
    workbench.report.line({
      what: `save ÷ insert, ${label}`,
      ...ratioOf(sides.save, sides.insert),
      target: { atMost: TARGETS[durability] },
      sides,
    });
  }
}

/** A log that grows costs a third more than one that is written over; all but the first saves of a process do the latter. */
function hasFullLog(path) {
  return statSync(`${path}-wal`).size >= LOG_PAGES * PAGE_BYTES;
}

/** The floor's table is at least as long as our session. */
function fillRaw({ db, insert }, messages) {
  db.exec('BEGIN');
  for (const message of messages) insert(JSON.stringify(message));
  db.exec('COMMIT');
}
