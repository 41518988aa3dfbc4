import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { Memory } from '../../src/memory/memory.ts';
import { LATER } from '../support/later.ts';
import { temporaryFolder } from '../support/storages.ts';
import { openStudio, rowsOf, startBrowser, visit } from './studio.ts';

const browser = startBrowser();
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Every screen, and something that is only there when it works. */
const SCREENS: readonly (readonly [name: string, address: string, shows: string])[] = [
  ['sessions', '/s', 'pricing-report'],
  ['messages', '/s/pricing-report', 'No progress for a long time. Stopped.'],
  ['state', '/s/pricing-report?tab=state', 'agents'],
  ['diff', '/s/pricing-report?tab=diff', '$.messages[33]'],
  ['context', '/s/pricing-report?tab=context', 'from here on'],
  ['effects', '/s/pricing-report?tab=effects', 'No call was recorded'],
  ['fork', '/s/pricing-report/fork', 'No change yet'],
  [
    'compare',
    '/s/pricing-report/compare?a=main&b=repair-search',
    'begins with an edit by Ann: The researcher repeats one search',
  ],
  ['storage', '/storage', 'Paths that grow most'],
  ['runs', '/runs', 'Refund 120 EUR for order 4711?'],
  ['memory', '/memory', 'without long-term memory'],
];

describe.each(['light', 'dark'] as const)('in %s', (colorScheme) => {
  const options = colorScheme === 'dark' ? LATER : {};
  test('[studio.1] every screen shows its data, complains about nothing, and is accessible', options, async () => {
    const studio = await openStudio();
    // The rules of the page keep out injected scripts: the checker is one.
    const context = await browser.open({ colorScheme, bypassCSP: true });
    for (const [name, address, shows] of SCREENS) {
      const { page, troubles } = await visit(context, studio, address);
      await page.getByText(shows).first().waitFor();
      await page.evaluate(axe);
      const found = await page.evaluate(async () => {
        const checker = (
          globalThis as unknown as {
            axe: { run(): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }> };
          }
        ).axe;
        const { violations } = await checker.run();
        return violations
          .filter(({ impact }) => impact === 'serious' || impact === 'critical')
          .map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`);
      });
      expect([name, found, troubles]).toEqual([name, [], []]);
      await page.close();
    }
  });
});

test('[studio.1] an empty storage shows the lines that make a first checkpoint, and takes an export', async () => {
  const studio = await openStudio({ isEmpty: true });
  const { page, troubles } = await visit(await browser.open(), studio, '/s');
  await page.getByText('No sessions yet').waitFor();
  expect(await page.getByText("import { open } from 'savestate'").count()).toBe(1);
  const other = await openStudio();
  const lines: string[] = [];
  for await (const line of await other.manager.exportSession('lisbon-trip')) lines.push(line);
  const file = { name: 'lisbon.ndjson', mimeType: 'application/x-ndjson', buffer: Buffer.from(lines.join('')) };
  await page.getByLabel('Import a file').setInputFiles(file);
  await page.getByRole('link', { name: 'lisbon-trip' }).waitFor();
  expect(troubles).toEqual([]);
});

test('[studio.1] sessions are sorted, columns chosen, and several tagged or forgotten at once, after a look at what would go', async () => {
  const studio = await openStudio();
  const { page, troubles } = await visit(await browser.open(), studio, '/s');
  const table = page.getByRole('table', { name: 'Sessions' });
  const names = () => table.getByRole('link').allTextContents();
  await table.getByRole('button', { name: 'Unique / logical' }).click();
  await page.waitForURL(/sort=-size/);
  const bySize = ['pricing-report', 'lisbon-trip', 'release-notes-4.2', 'support-chat-8841', 'refund-4711'];
  await expect.poll(names).toEqual(bySize);
  await page.reload();
  await expect.poll(names).toEqual(bySize);
  await table.getByRole('button', { name: 'Name' }).click();
  await expect.poll(names).toEqual(bySize.toSorted());
  await page.getByRole('button', { name: 'Columns' }).click();
  await page.getByRole('dialog', { name: 'Columns' }).getByLabel('Cost').click();
  await expect.poll(() => table.getByRole('columnheader', { name: 'Cost' }).count()).toBe(0);
  await page.keyboard.press('Escape');
  for (const name of ['lisbon-trip', 'release-notes-4.2']) await page.getByLabel(`Select ${name}`).click();
  const bar = page.getByRole('region', { name: 'Selected sessions' });
  await bar.getByText('54 checkpoints').waitFor();
  await bar.getByRole('button', { name: 'Tag' }).click();
  await bar.getByLabel('Name of the tag').fill('kept');
  await page.keyboard.press('Enter');
  await expect.poll(() => bar.getByLabel('Name of the tag').count()).toBe(0);
  expect((await studio.manager.tags('lisbon-trip')).map(({ name }) => name)).toEqual(['kept']);
  expect(troubles).toEqual([]);
  await bar.getByRole('button', { name: 'Forget…' }).click();
  await bar.getByRole('list', { name: 'What would be deleted' }).getByText('32 checkpoints on 1 branch').waitFor();
  await bar.getByRole('button', { name: 'Delete 2 sessions for good' }).click();
  await expect.poll(names).toEqual(['pricing-report', 'refund-4711', 'support-chat-8841']);
  expect(await bar.count()).toBe(0);
});

test('[studio.1] keys move, the address follows, and opens the same view again', async () => {
  const studio = await openStudio();
  const { page } = await visit(await browser.open(), studio, '/s/pricing-report');
  await page.getByText('No progress for a long time').waitFor();
  await page.keyboard.press('k');
  await page.keyboard.press('d');
  await page.getByText('Since #32 of main').waitFor();
  const address = new URL(page.url());
  expect([address.searchParams.get('tab'), address.searchParams.get('at')]).toEqual([
    'diff',
    expect.stringMatching(/^chk_/),
  ]);
  await page.reload();
  await page.getByText('Since #32 of main').waitFor();
});

test('[studio.1] messages are shown as they are stored on request, and the address says so', async () => {
  const studio = await openStudio();
  const { page } = await visit(await browser.open(), studio, '/s/pricing-report');
  await page.getByText('No progress for a long time').waitFor();
  await page.getByText('Raw', { exact: true }).click();
  await page.getByText('"content": "No progress for a long time. Stopped."').waitFor();
  await page.reload();
  await page.getByText('"content": "No progress for a long time. Stopped."').waitFor();
  await page.getByText('Rendered', { exact: true }).click();
  await page.waitForURL((url) => !url.searchParams.has('raw'));
});

/** Types letter by letter without a rest: no timer can end in between, however slow the machine is. */
function typeAtOnce(field: EventTarget, text: string): void {
  const setter = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), 'value')?.set;
  for (let end = 1; end <= text.length; end++) {
    setter?.call(field, text.slice(0, end));
    field.dispatchEvent(new Event('input', { bubbles: true }));
  }
}

test('[studio.1] search asks once the typing rests, finds sessions, text, tags and ids, and says when it found nothing', async () => {
  const studio = await openStudio();
  const { page, troubles } = await visit(await browser.open(), studio, '/s/pricing-report');
  await page.getByText('No progress for a long time').waitFor();
  const asked: string[] = [];
  page.on('request', (request) => {
    const { pathname, searchParams } = new URL(request.url());
    if (pathname === '/v1/search') asked.push(searchParams.get('text') ?? '');
  });
  await page.keyboard.press('/');
  const field = page.getByLabel('Search sessions, text and commands');
  const find = async (text: string, option: RegExp) => {
    await field.fill(text);
    await page.getByRole('listbox', { name: 'Found' }).getByRole('option', { name: option }).first().waitFor();
  };
  await field.waitFor();
  await field.evaluate(typeAtOnce, 'No progress');
  await page
    .getByRole('listbox', { name: 'Found' })
    .getByRole('option', { name: /No progress for a long time/ })
    .waitFor();
  expect(asked).toEqual(['No progress']);
  await find('lisbon', /lisbon-trip/);
  await find('outline', /outline-done/);
  await find('repair', /repair-search/);
  await find('Acme asks', /Acme asks.*pricing-report repair-search #/);
  for (const act of ['fork', 'rewind', 'compare', 'bisect', 'tag', 'export', 'prune', 'verify'])
    await find(act, new RegExp(`^${act}`, 'i'));
  const at = (await studio.manager.session('pricing-report')).head?.id ?? '';
  await find(at, /pricing-report main #34/);
  await field.fill('such words are nowhere');
  await page.getByText('Nothing found.').waitFor();
  await find('tag', /^Tag the selected step/);
  await page.keyboard.press('Enter');
  await expect.poll(() => page.locator(':focus').getAttribute('aria-label')).toBe('New tag');
  expect(troubles).toEqual([]);
});

test('[studio.1] filters of the list and questions to memory are in the address, and open the same view again', async () => {
  const memory = new Memory({ path: join(temporaryFolder(), 'memory.db') });
  await memory.add('I live in Lisbon.', { userId: 'ann' });
  await memory.add('My cat is called Olga.', { userId: 'ann' });
  const studio = await openStudio({ memory });
  const { page } = await visit(await browser.open(), studio, '/s');
  await page.getByRole('button', { name: /^Failed/ }).click();
  await page.getByLabel('Filter by id, agent or user').fill('pricing');
  await page.waitForURL(/group=Failed&text=pricing/);
  await page.reload();
  await page.getByText('1 of 5').waitFor();
  expect(await page.getByLabel('Filter by id, agent or user').inputValue()).toBe('pricing');
  await page.goto(`${studio.url}/memory`);
  await page.getByText('Whose memory is it?').waitFor();
  await page.getByLabel('User').fill('ann');
  await page
    .getByRole('cell', { name: /Lisbon/ })
    .first()
    .waitFor();
  await page.getByLabel('Ask long-term memory').fill('Who is Olga?');
  await page.getByRole('cell', { name: /Olga/ }).first().click();
  await page.waitForURL((url) => url.searchParams.get('text') === 'Who is Olga?' && url.searchParams.has('memory'));
  await page.reload();
  await page
    .getByRole('complementary', { name: 'Why it is known' })
    .getByText('My cat is called Olga.')
    .first()
    .waitFor();
});

test('[studio.1] the state marks what changed since the parent, and shows only that on request', async () => {
  const studio = await openStudio();
  const { page } = await visit(await browser.open(), studio, '/s/pricing-report?tab=state');
  const rows = page.getByRole('tree', { name: 'State' }).getByRole('treeitem');
  await rows.filter({ hasText: 'messages' }).getByText('changed').waitFor();
  expect(await rows.count()).toBe(4);
  await page.getByLabel('Only what changed since the parent').click();
  await page.waitForURL(/changed=only/);
  expect(await rows.count()).toBe(1);
  await page.getByRole('button', { name: 'Open $.messages' }).click();
  await expect.poll(() => rows.count()).toBe(2);
});

test('[studio.1] two branches and their tips: long runs are folded, keys go from difference to difference, paths lead to changes', async () => {
  const studio = await openStudio();
  const context = await browser.open();
  const { page, troubles } = await visit(context, studio, '/s/pricing-report/compare?a=main&b=repair-search');
  const steps = page.getByRole('region', { name: 'Steps' });
  const band = steps.getByRole('button', { name: '6 steps only in A: web_search ×3' });
  await band.waitFor();
  await page.getByText(/^Fork point: checkpoint #\d+$/).waitFor();
  await page.getByText(/^First divergence: checkpoint #\d+$/).waitFor();
  const rows = () => steps.locator('.cmp-row').count();
  const before = await rows();
  await band.click();
  await expect.poll(rows).toBe(before + 6);
  await page.keyboard.press('n');
  await page.keyboard.press('n');
  await steps.locator('.cmp-row.is-here').getByText('Acme asks 61 EUR').waitFor();
  await page.getByRole('link', { name: 'Diff the tips' }).click();
  const paths = page.getByRole('tree', { name: 'Changed paths' });
  await paths.getByRole('treeitem', { name: 'system' }).click();
  const change = page.getByRole('region', { name: '$.agents.researcher.system' });
  await change.getByText(/^text, \d+ words removed, \d+ added$/).waitFor();
  await change.locator('del').first().waitFor();
  await page.getByText('Inline', { exact: true }).click();
  await page.waitForURL(/inline=1/);
  await page.keyboard.press('n');
  await page.getByText(/^2 of \d+$/).waitFor();
  await page.getByRole('button', { name: 'Swap the sides' }).click();
  await page.getByRole('link', { name: 'A repair-search #30' }).waitFor();
  expect(troubles).toEqual([]);
});

test('[studio.1] storage is looked at over a time; retention lists what would go, deletes it only when told to there, and says what went', async () => {
  const studio = await openStudio();
  const { page, troubles } = await visit(await browser.open(), studio, '/storage');
  await page.getByText('7 days', { exact: true }).click();
  await page.waitForURL(/days=7/);
  await page.getByText('unique, in this time').waitFor();
  await page.getByRole('img', { name: 'Logical bytes above, unique bytes by path below' }).waitFor();
  const simulator = page.getByRole('complementary', { name: 'Retention simulator' });
  await simulator.getByLabel('Keep last').fill('1');
  await simulator.getByLabel('Daily').fill('');
  await simulator.getByRole('link', { name: 'pricing-report' }).waitFor();
  const prune = simulator.getByRole('button', { name: /^Prune 1\d\d…/ });
  const countAll = async () => (await studio.manager.stats()).checkpoints;
  const before = await countAll();
  await prune.dblclick(); // the second press finds no button in that place
  const dialog = page.getByRole('dialog', { name: /^Delete 1\d\d checkpoints/ });
  await expect.poll(() => dialog.count()).toBe(0);
  await prune.click();
  const goes = dialog.getByRole('list', { name: 'What would be deleted' }).getByRole('listitem');
  await goes.getByText('pricing-report').first().waitFor();
  const told = await goes.count();
  expect(await countAll()).toBe(before);
  await dialog.getByRole('button', { name: `Delete ${told}` }).click();
  await simulator.getByText(`Deleted ${told} checkpoints`).waitFor();
  await simulator.getByRole('button', { name: 'Prune 0…' }).waitFor();
  expect(await countAll()).toBe(before - told);
  expect((await studio.manager.list({ sessionId: 'lisbon-trip' })).checkpoints).toHaveLength(1);
  expect(troubles).toEqual([]);
});

test('[studio.1] on a small screen the name of the session and what to do about drift are in sight', async () => {
  const studio = await openStudio();
  const { page } = await visit(
    await browser.open({ viewport: { width: 900, height: 800 } }),
    studio,
    '/s/pricing-report',
  );
  const act = await page.getByRole('link', { name: 'Fork at #19' }).boundingBox();
  expect((act?.y ?? 800) + (act?.height ?? 0)).toBeLessThanOrEqual(800);
  const name = await page.getByRole('heading', { level: 1 }).boundingBox();
  expect(name?.width).toBeGreaterThanOrEqual(72);
});

test('[studio.1] messages say what they used, how each call was made and which call brings nothing new; tabs say how much they hold', async () => {
  const studio = await openStudio();
  const { page, troubles } = await visit(await browser.open(), studio, '/s/pricing-report');
  const messages = page.getByRole('region', { name: 'Messages' });
  await messages.getByText('Same call and same result as #20: nothing new').first().waitFor();
  await messages.getByText('7 alike').first().waitFor();
  await messages.getByText('live', { exact: true }).first().waitFor();
  await messages.getByText('7,721 tok').waitFor();
  await page.keyboard.press('k');
  await page.keyboard.press('k');
  const tabs = page.getByRole('tablist').first().getByRole('tab');
  await expect
    .poll(() => tabs.allTextContents(), { timeout: 60_000 })
    .toEqual(['Messages 32', 'State', 'Diff 1', 'Context', 'Effects 1']);
  const inspector = page.getByRole('complementary', { name: 'Inspector' });
  await inspector.getByText(/B of 1\d\.\d kB logical$/).waitFor();
  await inspector.getByText('7,220 in, 24 out').waitFor();
  await inspector.locator('.effects').getByText('web_search').waitFor();
  await page.getByRole('link', { name: 'First bad #20' }).click();
  await messages.getByText('First bad').waitFor();
  expect(troubles).toEqual([]);
});

test('[studio.1] a part of the branch is chosen by dragging over it; charts of drift and sizes, and the events, follow', async () => {
  const studio = await openStudio();
  const { page, troubles } = await visit(await browser.open(), studio, '/s/pricing-report');
  const charts = page.getByRole('region', { name: 'Charts' });
  await charts.getByText('main, 34 checkpoints').waitFor();
  const strip = await page.locator('.brush').boundingBox();
  const at = (share: number): [number, number] => [
    (strip?.x ?? 0) + 16 + ((strip?.width ?? 0) - 32) * share,
    (strip?.y ?? 0) + 40,
  ];
  await page.mouse.move(...at(9.5 / 34));
  await page.mouse.down();
  await page.mouse.move(...at(20 / 34));
  await page.mouse.move(...at(19.5 / 34));
  await page.mouse.up();
  await page.waitForURL(/range=10-20/);
  await charts.getByText('main, #10–20').waitFor();
  await charts.getByRole('tab', { name: 'Storage' }).click();
  await charts.getByText('$.messages[*]').waitFor();
  await charts.getByRole('img', { name: 'Sizes of 11 states' }).waitFor();
  await page.reload();
  await charts.getByRole('img', { name: 'Sizes of 11 states' }).waitFor();
  await charts.getByRole('tab', { name: 'Events' }).click();
  await charts.getByRole('button', { name: /#20 cheaper-model.*Ann.*Is gpt-4o-mini enough/ }).click();
  await page.waitForURL(/branch=cheaper-model/);
  await page.keyboard.press('Escape');
  await charts.getByText('cheaper-model, 20 checkpoints').waitFor();
  expect(troubles).toEqual([]);
});

test('[studio.1] bisect asks for the step in the middle until the first bad one is found', async () => {
  const studio = await openStudio();
  const { page, troubles } = await visit(await browser.open(), studio, '/s/pricing-report');
  await page.getByText('No progress for a long time').waitFor();
  await page.keyboard.press('b');
  const band = page.getByRole('region', { name: 'Bisect' });
  for (const [asked, answer] of [
    [17, 'Good'],
    [25, 'Bad'],
    [21, 'Bad'],
    [19, 'Good'],
    [20, 'Bad'],
  ] as const) {
    await band.getByText(`Is #${asked} good?`).waitFor();
    await band.getByRole('button', { name: answer }).click();
  }
  await band.getByText('#20 is the first bad step').waitFor();
  await band.getByRole('link', { name: 'Fork at #19' }).waitFor();
  await band.getByRole('button', { name: 'Stop' }).click();
  await expect.poll(() => band.count()).toBe(0);
  expect(troubles).toEqual([]);
});

test('[studio.1] runs of plain steps are folded, and unfolded on request', async () => {
  const studio = await openStudio();
  const { page } = await visit(await browser.open(), studio, '/s/pricing-report');
  await page.getByText('No progress for a long time').waitFor();
  expect(await rowsOf(page)).toContain('#2 to #17: 16 steps on main');
  await page.getByRole('button', { name: 'Fold' }).click();
  expect(await rowsOf(page)).not.toContain('#2 to #17: 16 steps on main');
});

test('[studio.1] stored text is shown as text, whatever is in it', async () => {
  const studio = await openStudio({ isEmpty: true });
  const session = await studio.manager.session('<img src=x onerror=alert(1)>\u202E');
  const content =
    '<script>globalThis.isOwned = true</script><img src=x onerror="globalThis.isOwned = true"> \u202E reversed \u001B[31m';
  const call = { type: 'tool-call', toolCallId: '1', toolName: '\u202Eloot', input: { content } };
  const messages = [
    { role: 'user', content },
    { role: 'assistant', content: [call] },
  ];
  await session.save({ messages, '<b>key</b>': content, '\u202Ekey': 1 }, { reason: content });
  await session.step('\u202Eloot', () => content);
  const head = await session.save({ messages, '\u202Ekey': content }, { author: '\u202EAnn' });
  await studio.manager.fork(head, {
    branch: 'other',
    author: 'Ann',
    reason: content,
    edit: () => ({ messages: [] }),
  });
  const { page, troubles } = await visit(await browser.open(), studio, `/s/${encodeURIComponent(session.id)}`);
  await page.getByText('<script>').first().waitFor();
  await page.keyboard.press('h');
  await page.keyboard.press('s');
  await page.getByText('<b>key</b>', { exact: true }).waitFor();
  expect(await page.evaluate(() => 'isOwned' in globalThis)).toBe(false);
  // What would turn the text around, or colour a terminal, is spelled out.
  await page.keyboard.press('m');
  await page.getByText('\\u202e reversed \\u001b[31m').first().waitFor();
  const place = `/s/${encodeURIComponent(session.id)}`;
  const screens = [
    [`${place}?tab=messages`, '\\u202eloot'],
    [`${place}?tab=messages&raw=1`, '"toolName"'],
    [`${place}?tab=state`, '\\u202ekey'],
    [`${place}?tab=diff`, '\\u202ekey'],
    [`${place}?tab=context`, 'from here on'],
    [`${place}?tab=effects`, '\\u202eloot'],
    [`${place}/fork`, 'No change yet'],
    [`${place}/compare?a=main&b=other`, 'begins with an edit'],
    ['/s', 'Verified'],
    ['/storage', 'Sharing by session'],
  ] as const;
  for (const [address, last] of screens) {
    await page.goto(`${studio.url}${address}`);
    await page.getByText(last).first().waitFor();
    const shown = await page.locator('body').innerText();
    expect([address, shown.match(/.*\u202E.*/)?.[0]]).toEqual([address, undefined]);
  }
  expect(troubles).toEqual([]);
});

test.each([
  ['/s/no-such-session', 'no-such-session'],
  ['/nowhere', 'There is no such page'],
  ['/s/%zz', '%zz'],
])('[studio.1] %s says what is wrong', async (address, words) => {
  const studio = await openStudio({ isEmpty: true });
  const { page } = await visit(await browser.open(), studio, address);
  await page.getByText(words).first().waitFor();
});

test('[studio.1] without the token the page says how to get in', async () => {
  const studio = await openStudio();
  const page = await (await browser.open()).newPage();
  await page.goto(`${studio.url}/s`);
  await page.getByText('Open the address that the server printed').first().waitFor();
  await page.getByLabel('Address or token').waitFor();
  expect(await page.getByRole('alert').count()).toBe(1); // once
});
