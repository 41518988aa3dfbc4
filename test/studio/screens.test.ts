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

test('[studio.1] an empty storage shows the lines that make a first checkpoint', async () => {
  const studio = await openStudio({ isEmpty: true });
  const { page, troubles } = await visit(await browser.open(), studio, '/s');
  await page.getByText('No sessions yet').waitFor();
  expect(await page.getByText("import { open } from 'savestate'").count()).toBe(1);
  expect(troubles).toEqual([]);
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
  const at = (await studio.manager.session('pricing-report')).head?.id ?? '';
  await find(at, /pricing-report main #34/);
  await field.fill('such words are nowhere');
  await page.getByText('Nothing found.').waitFor();
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

test('[studio.1] on a small screen the name of the session and what to do about drift are in sight', async () => {
  const studio = await openStudio();
  const { page } = await visit(
    await browser.open({ viewport: { width: 900, height: 800 } }),
    studio,
    '/s/pricing-report',
  );
  const act = await page.getByRole('link', { name: 'Fork there' }).boundingBox();
  expect((act?.y ?? 800) + (act?.height ?? 0)).toBeLessThanOrEqual(800);
  const name = await page.getByRole('heading', { level: 1 }).boundingBox();
  expect(name?.width).toBeGreaterThanOrEqual(72);
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
});
