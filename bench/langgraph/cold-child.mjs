import { openContestant } from './contestants.mjs';

/** Opens a saver and reads a thread, the first thing that a process does; the answer goes to the standard output as JSON. */
const { name, place, length } = JSON.parse(process.argv[2]);
const start = performance.now();
const before = process.cpuUsage();
const { saver, close } = await openContestant(name, place);
const tuple = await saver.getTuple({ configurable: { thread_id: 'thread' } });
const { messages } = tuple.checkpoint.channel_values;
const { user, system } = process.cpuUsage(before);
const tookMs = performance.now() - start;
if (messages.length !== length) throw new Error(`${name} lost something of ${length} messages.`);
await close();
process.stdout.write(JSON.stringify({ tookMs, cpuMs: (user + system) / 1000 }));
