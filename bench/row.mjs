import { join } from 'node:path';
import { installPeers } from './peers.mjs';
import { Report } from './report.mjs';
import { ROWS } from './rows.mjs';
import { Workbench } from './workbench.mjs';

// One row, in a process of its own: prints what it finds, and sends it to the run.
const { id, isQuick, folder } = JSON.parse(process.argv[2]);
const { file, peers } = ROWS[id];
if (peers !== undefined) installPeers(join(import.meta.dirname, peers));
const { title, run } = Object.values(await import(file)).find((row) => row.id === id);
const report = new Report();
report.heading(`${id}  ${title}`);
const start = performance.now();
await run(new Workbench({ isQuick, report, folder }));
report.note(`(${((performance.now() - start) / 1000).toFixed(1)} s)`);
process.send(report.found, () => process.exit());
