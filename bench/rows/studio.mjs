import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import chromium from '@sparticuz/chromium';
import { chromium as playwright } from 'playwright-core';
import { CheckpointManager, InMemoryCheckpointStorage } from '../../dist/index.js';
import { createServer } from '../../dist/server/index.js';
import { openManager } from '../workbench.mjs';

export const studio = { id: 'studio', title: 'the studio in Chromium: a long session, panning, live saves, size', run };

const FOLDER = fileURLToPath(new URL('../../dist/studio', import.meta.url));
const CHECKPOINTS = 10_000;
const MANY_CHECKPOINTS = 100_000;
/** Saves that are under way at once while the history is made. */
const WAVE = 1_000;
const TURNS_OF_WHEEL = 120;
const LIVE_SAVES = 100;
/** A step of the wheel, in pixels: about ten rows. */
const WHEEL = 240;

async function run(workbench) {
  const { report, isQuick } = workbench;
  reportSize(report);
  const path = await workbench.copyOfDatabase({ count: isQuick ? 2_000 : CHECKPOINTS });
  const long = openManager(path, { durability: 'process' });
  await inBrowser(long, async (page, url) => {
    await reportOpening(report, page, { url, what: 'a session of many messages and checkpoints' });
    await reportLive(report, page, { path, saves: workbench.rounds(LIVE_SAVES) });
    await reportTyping(report, page, url);
  });
  const many = await makeMany(isQuick ? MANY_CHECKPOINTS / 10 : MANY_CHECKPOINTS);
  await inBrowser(many, async (page, url) => {
    await reportOpening(report, page, { url, what: 'a session of ten times as many checkpoints' });
    await reportPanning(report, page);
  });
}

async function inBrowser(manager, measure) {
  const server = createServer(manager, { token: false });
  const { url } = await server.listen();
  const executablePath = await chromium.executablePath();
  const browser = await playwright.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
  try {
    await measure(await browser.newPage({ viewport: { width: 1440, height: 900 }, locale: 'en-US' }), url);
  } finally {
    await browser.close();
    await server.close();
    await manager.close();
  }
}

/** Small states, for what follows their number and not their size; in memory, with a few branches. */
async function makeMany(count) {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await manager.session('long');
  const save = (n) =>
    session.save(
      { messages: [{ role: 'assistant', content: `Step ${n}` }] },
      { metadata: { speaker: `agent-${n % 5}` } },
    );
  for (let from = 0; from < count; from += WAVE) {
    await Promise.all(Array.from({ length: WAVE }, (_, n) => save(from + n)));
    if (from % (count / 5) === 0)
      await manager.fork(session.head.id, { branch: `try-${from}`, edit: () => ({ from }) });
  }
  return manager;
}

/** What a browser loads before it shows anything: the page, and what the page names. */
function reportSize(report) {
  const page = readFileSync(join(FOLDER, 'index.html'), 'utf8');
  const files = readdirSync(FOLDER, { recursive: true, encoding: 'utf8' }).filter((name) =>
    statSync(join(FOLDER, name)).isFile(),
  );
  const first = files.filter((name) => page.includes(name.replaceAll('\\', '/')));
  const zipped = [page, ...first.map((name) => readFileSync(join(FOLDER, name)))].map(
    (content) => gzipSync(content).length,
  );
  const sum = (sizes) => sizes.reduce((all, size) => all + size, 0);
  report.line({ what: 'first load, gzip', ratio: sum(zipped) / 1_000, unit: ' kB', target: { atMost: 150 } });
  const whole = sum(files.map((name) => statSync(join(FOLDER, name)).size));
  report.line({ what: 'dist/studio', ratio: whole / 1_000, unit: ' kB', target: { atMost: 1_000 } });
}

async function reportOpening(report, page, { url, what }) {
  const startMs = performance.now();
  await page.goto(`${url}/s/long`);
  await page.getByRole('treegrid', { name: 'Checkpoints' }).getByRole('row').first().waitFor();
  const openedMs = performance.now() - startMs;
  report.line({
    what: `${what}, cold, until its rows are there`,
    ratio: openedMs,
    unit: ' ms',
    target: { atMost: 1_000 },
  });
  await page.getByRole('article').first().waitFor();
}

/** Frames while the graph is scrolled without folds: the time between two of them, and what the page computes for one. */
async function reportPanning(report, page) {
  await page
    .getByText(/0,\d{3} checkpoints/)
    .first()
    .waitFor(); // all of them are read
  await page.getByRole('button', { name: 'Fold' }).click();
  const box = await page.locator('.graph').boundingBox();
  await page.mouse.move(box.x + 50, box.y + 200);
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Performance.enable', { timeDomain: 'threadTicks' });
  await page.evaluate(() => {
    globalThis.frames = [];
    const tick = (time) => {
      globalThis.frames.push(time);
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  });
  const before = await busySeconds(devtools);
  for (let n = 0; n < TURNS_OF_WHEEL; n++) await page.mouse.wheel(0, n < TURNS_OF_WHEEL / 2 ? -WHEEL : WHEEL);
  const busy = (await busySeconds(devtools)) - before;
  const times = await page.evaluate(() => globalThis.frames);
  const gaps = times.slice(1).map((time, n) => time - times[n]);
  report.line({
    what: 'a frame while panning, p95',
    ratio: quantile(gaps, 0.95),
    unit: ' ms',
    target: { atMost: 16.8 },
  });
  report.line({
    what: 'processor time of the page for a turn of the wheel',
    ratio: (busy * 1_000) / TURNS_OF_WHEEL,
    unit: ' ms',
    target: { atMost: 16.7 },
  });
  const nodes = await page.evaluate(() => document.querySelectorAll('*').length);
  report.line({ what: 'DOM nodes', ratio: nodes, target: { atMost: 3_000 } });
}

/** How long the main thread of the page has worked: the load of the machine does not count. */
async function busySeconds(devtools) {
  const { metrics } = await devtools.send('Performance.getMetrics');
  return metrics.find(({ name }) => name === 'TaskDuration')?.value ?? 0;
}

/** From a save of another process to its row on the screen. */
async function reportLive(report, page, { path, saves }) {
  const program = fork(fileURLToPath(new URL('../saving.mjs', import.meta.url)), [path], { execArgv: [] });
  const waits = [];
  try {
    for (let n = 0; n < saves; n++) {
      program.send('save');
      const [{ sequence, savedMs }] = await once(program, 'message');
      await page.getByText(`#${sequence}`).first().waitFor();
      waits.push(Date.now() - savedMs);
    }
  } finally {
    program.kill();
  }
  report.line({
    what: 'commit of another process to screen, p95',
    ratio: quantile(waits, 0.95),
    unit: ' ms',
    target: { atMost: 250 },
  });
  report.note(`median ${quantile(waits, 0.5)} ms, worst ${Math.max(...waits)} ms of ${waits.length}`);
}

/** From a key to the frame that shows it, in the message of a fork at the end of a long session; before it, in a page that is nothing but a field. */
async function reportTyping(report, page, url) {
  await page.goto('about:blank');
  await page.setContent('<textarea></textarea>');
  const bare = await typeInto(page, page.locator('textarea'));
  const whole = page.waitForResponse((response) => /timeline\?.*cursor=/.test(response.url()));
  await page.goto(`${url}/s/long/fork`);
  await (await whole).finished(); // the history is read: what is measured is typing, not opening
  const { waits, busyMs } = await typeInto(
    page,
    page.getByRole('region', { name: 'Edit' }).getByRole('textbox').first(),
  );
  report.line({ what: 'typing, p95', ratio: quantile(waits, 0.95), unit: ' ms', target: { atMost: 50 } });
  report.line({ what: 'processor time of the page for a key', ratio: busyMs, unit: ' ms' });
  report.note(
    `in an empty page p95 ${quantile(bare.waits, 0.95).toFixed(1)} ms, ${bare.busyMs.toFixed(1)} ms of processor`,
  );
}

/** Types, and answers what each key took until its frame, and what a key costs the page. */
async function typeInto(page, text) {
  await text.click();
  await page.evaluate(() => {
    globalThis.keys = [];
    const measure = ({ timeStamp }) =>
      requestAnimationFrame(() => setTimeout(() => globalThis.keys.push(performance.now() - timeStamp)));
    addEventListener('keydown', measure, true);
  });
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Performance.enable', { timeDomain: 'threadTicks' });
  const before = await busySeconds(devtools);
  const typed = 'It is typed while the edit is compared. '.repeat(3);
  for (const key of typed) {
    await page.keyboard.press(key);
    await page.evaluate(nextFrame); // at hundreds of keys a second, timers wait for the keys: that would be measured
  }
  const busy = (await busySeconds(devtools)) - before;
  return { waits: await page.evaluate(() => globalThis.keys), busyMs: (busy * 1_000) / typed.length };
}

function nextFrame() {
  return new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
}

function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
