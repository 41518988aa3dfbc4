import { expect, test } from 'vitest';
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
