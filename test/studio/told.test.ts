import { expect, test } from 'vitest';
import { openDatabase } from '../../src/storage/database/sqlite-driver.ts';
import { createCrew, createRunner } from '../fleet/crew.ts';
import { openStudio, startBrowser, visit } from './studio.ts';

const browser = startBrowser();

test('[studio.1] the filter of drifting sessions lists those whose history drifts', async () => {
  const studio = await openStudio();
  const { page } = await visit(await browser.open(), studio, '/s');
  await page.getByRole('button', { name: 'Drifting 1' }).click();
  await expect
    .poll(() => page.getByRole('table', { name: 'Sessions' }).getByRole('link').allTextContents())
    .toEqual(['pricing-report']);
});

test('[studio.1] a session without a checkpoint says so, and how to list its steps', async () => {
  const studio = await openStudio({ isEmpty: true });
  await (await studio.manager.session('#steps only')).step('one', () => 1);
  const { page } = await visit(await browser.open(), studio, '/s/%23steps%20only');
  await page.getByText("savestate log --steps --session '#steps only'").waitFor();
});

test('[studio.1] Escape closes a menu, which is inside the window', async () => {
  const studio = await openStudio();
  const context = await browser.open({ viewport: { width: 1280, height: 800 } });
  const { page } = await visit(context, studio, '/s/pricing-report');
  await page.getByRole('button', { name: 'Run' }).click();
  const menu = page.getByRole('dialog', { name: 'Run' });
  const box = await menu.boundingBox();
  expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(1280);
  await page.keyboard.press('Escape');
  await menu.waitFor({ state: 'hidden' });
});

test('[studio.1] what cannot be forked is said before anybody presses: a name that no branch can have, a read-only server', async () => {
  const studio = await openStudio({ readOnly: true });
  const { page } = await visit(await browser.open(), studio, '/s/pricing-report/fork');
  const form = page.getByRole('complementary', { name: 'The fork' });
  await form.getByText('The server is read-only').waitFor();
  expect(await form.getByRole('button', { name: 'Fork', exact: true }).isDisabled()).toBe(true);
  await form.getByLabel('Branch').fill('a..b');
  await form.getByText('must not read as a range').waitFor();
});

test('[studio.1] an answer that needs words gets a field; the ledger of a fleet is shown', async () => {
  const studio = await openStudio({ isEmpty: true });
  const { runner } = createRunner(createCrew({}, { planReview: true }), { manager: studio.manager });
  await runner.run({ task: 'Find out what is known.' });
  const { page, troubles } = await visit(await browser.open(), studio, '/runs');
  await page.getByRole('button', { name: 'edit' }).click();
  await page.getByLabel('the plan as it should be').fill('Ask a librarian.');
  await page.getByRole('button', { name: 'Send edit' }).click();
  await page.getByText('Nobody is asked anything now').waitFor();
  await runner.resume();
  await page.getByText('Ask a librarian.').first().waitFor();
  await page.getByText('Facts', { exact: true }).waitFor();
  expect(troubles).toEqual([]);
});

test('[studio.1] an edit belongs to its checkpoint and its form: another step begins unchanged, and coming back brings the edit back', async () => {
  const studio = await openStudio();
  const { page, troubles } = await visit(await browser.open(), studio, '/s/pricing-report/fork');
  const field = page.getByLabel('$.messages[0].content');
  const original = await field.inputValue();
  const isUnchanged = async () => {
    await page.getByText('No change yet').waitFor();
    await page.getByRole('button', { name: 'Fork', exact: true }).waitFor();
  };
  const isBack = async () => {
    await page.getByText('1 change,').waitFor();
    expect(await field.inputValue()).toBe('Mine.');
  };
  await field.fill('Mine.');
  await page.getByText('1 change,').waitFor();
  await page.getByRole('tab', { name: 'State as JSON' }).click();
  await isUnchanged();
  await page.getByRole('tab', { name: 'Messages' }).click();
  await isBack();
  await page.keyboard.press('k');
  await page.getByRole('heading', { name: 'Fork main #33' }).waitFor();
  await isUnchanged();
  expect(await field.inputValue()).toBe(original);
  await page.keyboard.press('j');
  await isBack();
  await page.keyboard.press('Escape');
  await page.getByRole('treegrid', { name: 'Checkpoints' }).waitFor();
  await page.keyboard.press('f');
  await isBack();
  await field.press('End'); // browsers ask only somebody who did something
  const question = page.waitForEvent('dialog');
  await page.evaluate('void setTimeout(() => location.reload())');
  expect((await question).type()).toBe('beforeunload');
  await (await question).dismiss();
  await isBack();
  expect(troubles).toEqual([]);
});

test('[studio.1] a fork that is pressed twice is made once, and one step back is where it was pressed', async () => {
  const studio = await openStudio();
  const { page, troubles } = await visit(await browser.open(), studio, '/s/pricing-report/fork');
  const before = (await studio.manager.tree('pricing-report')).branches.length;
  await page.getByText('No change yet').waitFor();
  await page.getByRole('button', { name: 'Fork', exact: true }).evaluate((button: { click(): void }) => {
    button.click();
    button.click();
  });
  await page.waitForURL(/branch=/);
  expect((await studio.manager.tree('pricing-report')).branches.length).toBe(before + 1);
  await page.goBack();
  await page.getByText('No change yet').waitFor();
  expect(troubles).toEqual([]);
});

test('[studio.1] of a session that keeps the last messages only, an earlier checkpoint shows its own', async () => {
  const studio = await openStudio({ isEmpty: true });
  const session = await studio.manager.session('window');
  const ids: string[] = [];
  for (let n = 1; n <= 9; n++) {
    const messages = [n - 1, n].map((step) => ({ role: 'assistant', content: `Step ${step}.` }));
    ids.push(await session.save({ messages }, { metadata: { messages: 2 } }));
  }
  const { page } = await visit(await browser.open(), studio, `/s/window?at=${ids[3]}`);
  const messages = page.getByRole('region', { name: 'Messages' }).getByRole('article');
  await messages.getByText('Step 4.').waitFor();
  expect(await messages.count()).toBe(2);
  await page.keyboard.press('l');
  await messages.getByText('Step 5.').waitFor();
  expect(await messages.getByText('Step 9.').count()).toBe(0);
});

test('[studio.1] compared branches are grouped by agent or tool on request, and every step is listed, however many there are', async () => {
  const studio = await openStudio();
  const { manager } = studio;
  const { page, troubles } = await visit(
    await browser.open(),
    studio,
    '/s/pricing-report/compare?a=main&b=repair-search',
  );
  const steps = page.getByRole('region', { name: 'Steps' });
  await page.getByText('Tool', { exact: true }).click();
  await page.waitForURL(/by=Tool/);
  await steps.getByRole('button', { name: /^web_search ×7 to ×2 −71 %/ }).click();
  await steps.getByText('web_search “Acme list price”').waitFor();
  await page.reload();
  await steps.getByRole('button', { name: /^run_tests ×0 to ×1/ }).waitFor();
  await page.getByText('Agent', { exact: true }).click();
  await steps.getByRole('button', { name: /^researcher ×14 to ×4/ }).waitFor();
  const figures = page.getByRole('complementary', { name: 'Figures' });
  expect(await figures.getByTitle('researcher: web_search').count()).toBe(1);
  const session = await manager.session('long');
  const start = await session.save({ messages: [] });
  const said = Array.from({ length: 2_010 }, (_, n) => ({ role: 'assistant', content: `Step ${n}` }));
  await session.save({ messages: said });
  await manager.fork(start, { branch: 'other', edit: () => ({ messages: [], note: 'empty' }) });
  await page.goto(`${studio.url}/s/long/compare?a=main&b=other&by=Agent`);
  await steps.getByRole('button', { name: /^assistant ×2000 to ×0/ }).waitFor();
  await steps.getByRole('button', { name: 'Show more: 10 steps are left' }).click();
  await steps.getByRole('button', { name: /^assistant ×2010 to ×0/ }).waitFor();
  expect(troubles).toEqual([]);
});

test('[studio.1] what verifying finds is listed on the page, until it is closed', async () => {
  const studio = await openStudio();
  const { page } = await visit(await browser.open(), studio, '/storage');
  await page.getByRole('button', { name: 'Verify now' }).click();
  await page.getByText(/^Verified: \d+ chunks$/).waitFor();
  const database = openDatabase(studio.path);
  const head = (await studio.manager.session('lisbon-trip')).head?.id;
  database.exec(`UPDATE checkpoint SET root_text = '{}' WHERE id = '${head}'`);
  database.close();
  await page.getByRole('button', { name: 'Verify now' }).click();
  const found = page.getByRole('alert', { name: 'What verifying found' });
  await found
    .getByText(head ?? '')
    .first()
    .waitFor();
  expect(await page.getByText(/^Verified/).count()).toBe(0);
  await found.getByRole('button', { name: 'Close' }).click();
  expect(await found.count()).toBe(0);
});

test('[studio.1] a value among messages that is no message is edited as JSON only', async () => {
  const studio = await openStudio({ isEmpty: true });
  const session = await studio.manager.session('odd');
  await session.save({ messages: [{ role: 'user', content: 'Hello' }, 'a text', 42, { content: { deep: 1 } }] });
  const { page } = await visit(await browser.open(), studio, '/s/odd/fork');
  await page.getByText('as JSON only').nth(2).waitFor();
  expect(await page.getByRole('region', { name: 'Edit' }).getByRole('textbox').count()).toBe(1);
});

test('[studio.1] keys go where they are meant: into the search that was just opened, to the button that has the focus, and not through a dialog', async () => {
  const studio = await openStudio();
  const { page } = await visit(await browser.open(), studio, '/s');
  await page.getByRole('button', { name: 'Failed' }).focus();
  await page.keyboard.press('Enter');
  await page.waitForURL(/group=Failed/);
  await page.goto(`${studio.url}/s/pricing-report/fork`);
  await page.getByText('No change yet').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('fork'); // at once, before anything is loaded
  expect(await page.getByLabel('Search sessions, text and commands').inputValue()).toBe('fork');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog', { name: 'Search and commands' }).waitFor({ state: 'hidden' });
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await page.keyboard.press('k');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor({ state: 'hidden' });
  await page.getByRole('heading', { name: 'Fork main #34' }).waitFor();
});
