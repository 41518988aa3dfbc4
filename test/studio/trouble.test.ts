import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createServer } from '../../src/server/index.ts';
import { openDatabase } from '../../src/storage/database/sqlite-driver.ts';
import { builtFolder } from '../support/on-demand.ts';
import { openStudio, startBrowser, visit } from './studio.ts';

const browser = startBrowser();

test('[studio.1] when the server is gone the page says so and keeps what it shows; when it is back with another token, the page says that and takes the new one', async () => {
  const studio = await openStudio();
  const { page } = await visit(await browser.open(), studio, '/s/pricing-report');
  await page.getByText('No progress for a long time').first().waitFor();
  await studio.server.close();
  await page.getByText('Reconnecting').waitFor();
  await page.getByText('it may have another address: open the one it printed').waitFor();
  await page.keyboard.press('k');
  await page.getByText('The server does not answer').first().waitFor();
  expect(await page.getByText('No progress for a long time').count()).toBeGreaterThan(0);
  const again = createServer(studio.manager, { studio: join(builtFolder(), 'studio') });
  await again.listen({ port: Number(new URL(studio.url).port) });
  await page.getByText('This page has no valid token').waitFor();
  expect(await page.getByText('Reconnecting').count()).toBe(0);
  await page.getByLabel('Address or token').fill('not-the-token');
  await page.keyboard.press('Enter');
  await page.getByText('This is not the token of this server').waitFor();
  await page.getByLabel('Address or token').fill(`${studio.url}/#token=${again.token}`);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: /^Live/ }).waitFor();
  await expect.poll(() => page.getByRole('alert').count(), { timeout: 30_000 }).toBe(0);
  await page.getByText('No progress for a long time').first().waitFor();
  await again.close();
});

test('[studio.1] a damaged checkpoint is told in its place, one that is deleted while it is open too; the rest works', async () => {
  const studio = await openStudio();
  const { manager, path } = studio;
  const session = await manager.session('broken');
  const first = await session.save({ messages: [{ role: 'user', content: 'still readable' }] });
  const second = await session.save({ messages: [{ role: 'user', content: 'x'.repeat(200_000) }] });
  await session.save({ messages: [{ role: 'user', content: 'the newest' }] });
  const { page } = await visit(await browser.open(), studio, `/s/broken?at=${first}`);
  await page.getByText('still readable').first().waitFor();
  const database = openDatabase(path);
  database.exec(`UPDATE checkpoint SET root_text = '{}' WHERE id = '${second}'`);
  database.close();
  await page.keyboard.press('l');
  await page.getByText('Run "savestate verify --read-data"').first().waitFor();
  await page.keyboard.press('.');
  await page.getByText('the newest').first().waitFor();
  await page.goto(`${studio.url}/s`);
  await page.getByRole('row', { name: /\bbroken .*1 part bad/ }).waitFor();
  await page.getByRole('row', { name: /\blisbon-trip .*Verified/ }).waitFor();
  await page.goto(`${studio.url}/s/broken?at=${first}`);
  await page.getByText('still readable').first().waitFor();
  await manager.delete(first);
  await page.reload();
  await page
    .getByText(/was deleted/)
    .first()
    .waitFor();
});

test('[studio.1] an enormous value is shown in part, and whole on request', async () => {
  const studio = await openStudio({ isEmpty: true });
  const session = await studio.manager.session('huge');
  await session.save({
    messages: [{ role: 'user', content: 'word '.repeat(500_000) }],
    text: 'y'.repeat(100_000),
    list: Array.from({ length: 50_000 }, (_, n) => n),
  });
  const { page, troubles } = await visit(await browser.open(), studio, '/s/huge');
  await page.getByText('Show all').first().waitFor();
  await page.keyboard.press('s');
  await page.getByRole('button', { name: 'Open $.list' }).click();
  await page.getByRole('treeitem').getByText('3', { exact: true }).first().waitFor(); // what is not there yet cannot be scrolled
  await page.mouse.wheel(0, 30_000);
  await page.getByRole('treeitem').getByText('999', { exact: true }).first().waitFor();
  await page.getByRole('button', { name: 'Show more: 49,000 are left' }).click();
  await page.getByRole('treeitem').getByText('1000', { exact: true }).first().waitFor();
  expect(await page.locator('*').count()).toBeLessThan(3_000);
  expect(troubles).toEqual([]);
});

test('[studio.1] two tabs that fork under one name: the second is told in place, and keeps what was typed', async () => {
  const studio = await openStudio();
  const context = await browser.open();
  const pages = await Promise.all(
    [1, 2].map(async () => (await visit(context, studio, '/s/pricing-report/fork')).page),
  );
  for (const page of pages) await page.getByLabel('Branch').fill('mine');
  for (const page of pages)
    await page
      .getByRole('textbox')
      .first()
      .fill(`Edited in tab ${pages.indexOf(page)}.`);
  const [first, second] = pages;
  await first?.getByRole('button', { name: 'Fork with the edit' }).click();
  await first?.waitForURL(/branch=mine/);
  await second?.getByText('There is a branch of this name.').waitFor();
  expect(await second?.getByRole('button', { name: 'Fork with the edit' }).isDisabled()).toBe(true);
  expect(await second?.getByRole('textbox').first().inputValue()).toBe('Edited in tab 1.');
});

test('[studio.1] a storage that another program has locked: reading goes on, a change says why it cannot be made', async () => {
  const studio = await openStudio();
  const { page } = await visit(await browser.open(), studio, '/s/pricing-report/fork');
  await page.getByText('No change yet').waitFor();
  const other = openDatabase(studio.path);
  other.exec('BEGIN IMMEDIATE');
  await page.getByLabel('Branch').fill('late');
  await page.getByRole('button', { name: 'Fork' }).click();
  await page.getByText('is locked by another process').waitFor({ timeout: 60_000 });
  await page.goto(`${studio.url}/s/support-chat-8841`);
  await page.getByRole('treegrid', { name: 'Checkpoints' }).getByRole('row').first().waitFor();
  other.exec('ROLLBACK');
  other.close();
});

test('[studio.1] a branch without a checkpoint of its own is counted, named at its place and chosen; one that is not there is said', async () => {
  const studio = await openStudio();
  const session = await studio.manager.session('pricing-report');
  await studio.manager.fork(session.head?.id ?? '', { branch: 'no-edit' });
  const { page } = await visit(await browser.open(), studio, '/s/pricing-report?branch=no-edit');
  await page.getByRole('row', { name: /branch no-edit/ }).waitFor();
  expect(await page.getByLabel('Branch', { exact: true }).inputValue()).toBe('no-edit');
  await page.getByLabel('Overview of no-edit').waitFor();
  const { branches } = await studio.manager.tree('pricing-report');
  expect(await page.getByLabel('Branches').locator('.count').textContent()).toBe(String(branches.length));
  await page.goto(`${studio.url}/s/pricing-report?branch=gone`);
  await page.getByText('There is no branch gone').waitFor();
  await page.goto(`${studio.url}/s/pricing-report/compare?a=main&b=gone`);
  await page.getByText(/branch "gone"/).waitFor();
  expect(await page.getByRole('combobox').nth(1).inputValue()).toBe('gone');
  await page.goto(`${studio.url}/s/pricing-report/fork?at=chk_gone`);
  await page.getByText('There is no checkpoint chk_gone').waitFor();
  expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Fork');
});
