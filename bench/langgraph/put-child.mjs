import { createFsyncProbe, summarise } from '../measure.mjs';
import { openContestant } from './contestants.mjs';
import { GrowingThread } from './conversation.mjs';
import { repeat, timeMs } from './timing.mjs';

/** Saves and reads before the clock starts, in a place of its own: everyone's code is compiled then. */
const WARMUP_MESSAGES = 100;
const WARMUP_READS = 10;
/** Between so many saves the disk is asked how fast it is. */
const PROBE_EVERY = 10;
const READS = { count: 7, limitMs: 5_000 };
const LISTS = { count: 3, limitMs: 8_000 };
const HISTORY_PAGE = 20;

/** One contestant, one size, one process; the answer goes to the standard output as JSON. */
const { name, count, limitMs, place, warmupPlace } = JSON.parse(process.argv[2]);
await warmUp();
const saves = await measureSaves();
const reads = await measureReads();
process.stdout.write(JSON.stringify({ ...saves, ...reads }));

async function warmUp() {
  const { saver, close } = await openContestant(name, warmupPlace);
  const thread = new GrowingThread(saver, 'warm-up', 2);
  await thread.begin();
  for (let made = 0; made < WARMUP_MESSAGES; made++) await thread.save(thread.prepare());
  const readAll = async (from) => {
    await readLatest(from, 'warm-up', WARMUP_MESSAGES);
    await readHistory(from, 'warm-up');
  };
  for (let read = 0; read < WARMUP_READS; read++) await readAll(saver);
  await close();
  for (let read = 0; read < WARMUP_READS; read++) {
    const reopened = await openContestant(name, warmupPlace);
    await readAll(reopened.saver);
    await reopened.close();
  }
}

async function measureSaves() {
  const { saver, close, bytes } = await openContestant(name, place);
  const probe = createFsyncProbe(warmupPlace.folder);
  const thread = new GrowingThread(saver, 'thread', 1);
  await thread.begin();
  const saveMs = [];
  const probeMs = [];
  let totalMs = 0;
  while (thread.length < count && totalMs < limitMs) {
    const prepared = thread.prepare();
    const tookMs = await timeMs(() => thread.save(prepared));
    saveMs.push(tookMs);
    totalMs += tookMs;
    if (thread.length % PROBE_EVERY === 0) probeMs.push(await timeMs(probe.run));
  }
  probe.close();
  // While it is still open: what it remembers of its own saves is there.
  const openMs = { getTuple: await repeat(READS, () => timeMs(() => readLatest(saver, 'thread', thread.length))) };
  openMs.list = await repeat(LISTS, () => timeMs(() => readHistory(saver, 'thread')));
  const heldBytes = await bytes?.();
  await close();
  return {
    saved: thread.length,
    totalMs,
    ...tenths(saveMs),
    probe: summarise(probeMs),
    heldBytes,
    open: summariseEach(openMs),
  };
}

/** Each read by a saver that was opened for it and knows nothing. */
async function measureReads() {
  const fresh = async (read) => {
    const { saver, close } = await openContestant(name, place);
    await saver.getTuple({ configurable: { thread_id: 'none' } }); // connects
    const tookMs = await timeMs(() => read(saver));
    await close();
    return tookMs;
  };
  return {
    reopened: summariseEach({
      getTuple: await repeat(READS, () => fresh((saver) => readLatest(saver, 'thread', saves.saved))),
      list: await repeat(LISTS, () => fresh((saver) => readHistory(saver, 'thread'))),
    }),
  };
}

async function readLatest(saver, threadId, length) {
  const tuple = await saver.getTuple({ configurable: { thread_id: threadId } });
  look(tuple, length);
}

async function readHistory(saver, threadId) {
  const config = { configurable: { thread_id: threadId, checkpoint_ns: '' } };
  let length;
  for await (const tuple of saver.list(config, { limit: HISTORY_PAGE })) {
    length ??= tuple.checkpoint.channel_values.messages.length;
    look(tuple, length--);
  }
}

/** Some savers decode a tuple when it is looked at; all must hold the right messages. */
function look({ checkpoint, pendingWrites }, length) {
  const { messages } = checkpoint.channel_values;
  const isRight = messages.length === length && messages.every(({ content }) => content.length > 0);
  if (!isRight || !Array.isArray(pendingWrites)) throw new Error(`${name} lost something of ${length} messages.`);
}

function summariseEach(samples) {
  return Object.fromEntries(Object.entries(samples).map(([key, list]) => [key, summarise(list)]));
}

function tenths(samples) {
  const tenth = Math.max(1, Math.floor(samples.length / 10));
  return { first: summarise(samples.slice(0, tenth)), last: summarise(samples.slice(-tenth)) };
}
