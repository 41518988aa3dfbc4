import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { StandardAgent } from '../../src/runtime/agent/standard-agent.ts';
import { CheckpointingGroupChatManager } from '../../src/runtime/chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../../src/runtime/chat/group-chat.ts';
import { scriptedModel } from '../../src/testing/model/scripted-model.ts';
import { builtFolder } from '../support/on-demand.ts';
import { temporaryFolder } from '../support/storages.ts';
import { openStudio, rowsOf, startBrowser, visit } from './studio.ts';
import { holdTeam } from './team.ts';

const browser = startBrowser();

test('[studio.1] find where a run went wrong, fork it there with an edit, and see both branches', async () => {
  const studio = await openStudio();
  const { page } = await visit(await browser.open(), studio, '/s');
  await page.getByRole('link', { name: 'pricing-report' }).click();
  await page.getByRole('link', { name: 'Fork at #19' }).click();
  await page.getByRole('heading', { name: 'Begins at' }).waitFor();
  await page
    .getByLabel(/\.content$/)
    .first()
    .fill('Compare list prices of two vendors.');
  await page.getByText('1 change,').waitFor();
  await page.getByLabel('Branch').fill('two-vendors');
  await page.getByLabel('Reason').fill('Six are too many');
  await page.getByRole('button', { name: 'Fork with the edit' }).click();
  await page.waitForURL(/branch=two-vendors/);
  await page.getByText('Six are too many').first().waitFor();
  const branches = await studio.manager.branches('pricing-report');
  const made = branches.find((branch) => JSON.stringify(branch).includes('two-vendors'));
  const { messages } = (await studio.manager.load(made?.headId ?? '')) as { messages: { content: string }[] };
  expect(messages[0]?.content).toBe('Compare list prices of two vendors.');
  await page.getByText('Saved at #20').waitFor(); // its origin ran there; nobody runs the fork
  await page.keyboard.press('c');
  await page.waitForURL(/compare\?a=main&b=two-vendors$/);
  await page.getByText('Messages by speaker').waitFor();
  const figures = page.getByRole('complementary', { name: 'Figures' }).getByRole('table').first();
  const figure = (name: string) => figures.getByRole('row', { name }).getByRole('cell').allTextContents();
  expect(await figure('Messages')).toEqual(['Messages', '15', '0', '−100 %']);
  expect(await figure('Tokens')).toEqual(['Tokens', '92.5 k', '0', '−100 %']);
  expect(await figure('End')).toEqual(['End', 'failed', 'saved', '']);
  await page.goBack();
  await page.getByRole('link', { name: 'Compare' }).click();
  await page.waitForURL(/compare\?a=main&b=two-vendors$/);
});

const WRITER = `
const { CheckpointManager, SqliteCheckpointStorage } = await import(process.argv[1]);
const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: process.argv[2] }) });
const session = await manager.session('other-process');
const messages = [];
process.stdin.on('data', async () => {
  messages.push({ role: 'assistant', content: 'Step ' + (messages.length + 1) });
  await session.save({ messages: [...messages] }, { metadata: { speaker: 'assistant', messages: messages.length } });
  process.stdout.write('saved');
});
process.stdout.write('ready');
`;

test('[studio.1] a run of another process is followed live; what is read does not move', async () => {
  const studio = await openStudio({ isEmpty: true });
  const library = pathToFileURL(join(builtFolder(), 'index.js')).href;
  const child = spawn(process.execPath, ['--input-type=module', '-e', WRITER, library, studio.path], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const saveNext = async () => {
    child.stdin.write('next');
    await once(child.stdout, 'data');
  };
  await once(child.stdout, 'data');
  await saveNext();
  const context = await browser.open();
  const streams: string[] = [];
  context.on('request', (request) => request.url().includes('/v1/events') && streams.push(request.url()));
  const { page: first } = await visit(context, studio, '/s/other-process');
  await first.getByText('Step 1').first().waitFor();
  const { page } = await visit(context, studio, '/s/other-process');
  await page.getByText('Step 1').first().waitFor();
  await saveNext();
  await page.getByText('Step 2').first().waitFor();
  await first.getByText('Step 2').first().waitFor();
  expect(streams).toHaveLength(1); // one connection serves both tabs
  await first.close();
  await page.keyboard.press('k');
  await saveNext();
  await page.getByText('1 new').waitFor();
  expect(
    await page.getByRole('complementary', { name: 'Inspector' }).getByRole('heading', { level: 2 }).textContent(),
  ).toBe('#1');
  await page.keyboard.press('.');
  await expect.poll(async () => (await rowsOf(page)).at(-1)).toMatch(/^#3 main/);
  child.kill();
});

test('[studio.1] the approval of a workflow is answered, once', async () => {
  const studio = await openStudio();
  const { page } = await visit(await browser.open(), studio, '/runs');
  await page.getByRole('button', { name: 'approve' }).click();
  await page.getByText('Nobody is asked anything now').waitFor();
  await page.getByRole('row', { name: /refund-4711 .*Answered/ }).waitFor();
  await page.getByText(`savestate continue --session refund-4711 --storage sqlite:${studio.path}`).waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await page.getByRole('row', { name: /refund-4711 Answered 1 \d/ }).waitFor();
  await page.getByRole('link', { name: 'refund-4711' }).click();
  await page.getByText('Answered at #4').waitFor();
});

test('[studio.1] a team is run from the page: rounds, pause, an answer that lets it go on; without a team the page shows what to type', async () => {
  const held = holdTeam();
  const studio = await openStudio({ isEmpty: true, team: held.team });
  await held.begin(studio.manager);
  const { page, troubles } = await visit(await browser.open(), studio, '/s/trip');
  await page.getByText('person asks').waitFor();
  await page.getByRole('textbox', { name: 'Answer to trip' }).fill('By train.');
  await page.getByRole('button', { name: 'Answer' }).click();
  await page.getByText('Take the train.').first().waitFor();
  await page.getByRole('button', { name: 'Run' }).click();
  await page.getByLabel('Rounds').fill('2');
  await page.getByText('savestate continue --session trip -n 2').waitFor();
  await page.getByRole('button', { name: 'Run 2 rounds' }).click();
  await page.getByRole('button', { name: 'Pause' }).click(); // waits until it is enabled
  await page.getByRole('button', { name: 'Run' }).click({ trial: true }); // which it is again when the run has stopped
  expect(held.requests.map(({ at, rounds }) => [at, rounds])).toEqual([
    [undefined, undefined],
    [undefined, 2],
  ]);
  expect(troubles).toEqual([]);
  const bare = await openStudio();
  const { page: other } = await visit(await browser.open(), bare, '/s/pricing-report');
  await other.getByRole('button', { name: 'Run' }).click();
  await other.getByText('Your program runs it').waitFor();
  await other.getByText('savestate show @ --session pricing-report --storage').waitFor();
  await other
    .getByText('const session = await manager.session("pricing-report");\nconst { state } = session;')
    .waitFor();
});

test('[studio.1] commands work when they are pasted: they name the storage, or the server where no other process can open it', async () => {
  const studio = await openStudio();
  const { page } = await visit(await browser.open(), studio, '/s/pricing-report');
  const shown = page.getByRole('complementary', { name: 'Inspector' }).locator('.cli code');
  await expect.poll(() => shown.textContent()).toContain('--storage');
  const command = (await shown.textContent()) ?? '';
  const main = join(builtFolder(), 'cli/main.js');
  const script = `savestate() { "$NODE" "$MAIN" "$@"; }; ${command} --json`;
  const { stdout, stderr } = spawnSync('sh', ['-c', script], {
    cwd: temporaryFolder(),
    env: { ...process.env, NODE: process.execPath, MAIN: main },
    encoding: 'utf8',
  });
  expect({ command, stderr }).toEqual({ command, stderr: '' });
  expect(JSON.parse(stdout)).toMatchObject({ checkpoint: { sessionId: 'pricing-report' } });
  const far = await openStudio({ address: undefined });
  const { page: other } = await visit(await browser.open(), far, '/s/pricing-report');
  const inspector = other.getByRole('complementary', { name: 'Inspector' });
  await inspector
    .getByText(`--remote ${new URL(far.url).origin}`)
    .first()
    .waitFor();
  await inspector.getByText('set SAVESTATE_TOKEN to its token').waitFor();
});

test('[studio.1] a conversation that has ended says so before it is run again, and what lets it go on', async () => {
  const run = () => Promise.reject(new Error('nobody runs it'));
  const studio = await openStudio({ isEmpty: true, team: { label: 'trip.yaml', run } });
  const model = scriptedModel(() => 'The train. TERMINATE', { id: 'planner-model' });
  const chat = new GroupChat({ agents: [new StandardAgent({ name: 'planner', model })], maxRounds: 9 });
  const talk = new CheckpointingGroupChatManager({ chat, manager: studio.manager, sessionId: 'trip', logs: false });
  await talk.run({ message: 'Plan a trip.' });
  const { page } = await visit(await browser.open(), studio, '/s/trip');
  await page.getByText('The train.').first().waitFor();
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByText('It has ended: planner said "TERMINATE".').waitFor();
  expect(await page.getByRole('button', { name: 'Run 5 rounds' }).isDisabled()).toBe(true);
  await page.getByLabel('Say this first').fill('And back?');
  expect(await page.getByRole('button', { name: 'Run 5 rounds' }).isDisabled()).toBe(false);
});

test('[studio.1] messages are edited, and the state as JSON: what does not parse is said, what does is previewed, reset brings the original back', async () => {
  const studio = await openStudio();
  const { page, troubles } = await visit(await browser.open(), studio, '/s/pricing-report/fork');
  const message = page.getByLabel('$.messages[0].content');
  const original = await message.inputValue();
  await message.fill('Something else.');
  await page.getByText('1 change,').waitFor();
  await page.getByRole('button', { name: 'Reset' }).click();
  await page.getByText('No change yet').waitFor();
  expect(await message.inputValue()).toBe(original);
  await page.getByRole('tab', { name: 'State as JSON' }).click();
  const editor = page.locator('.cm-merge-b .cm-content');
  await editor.click();
  await page.keyboard.press('Control+Home');
  await page.keyboard.type('x');
  await page.getByText('Mend the edit first').waitFor();
  await page.keyboard.press('Backspace');
  await page.keyboard.press('End');
  await page.keyboard.type('"budget": 7,');
  await page.getByText('/budget 7').waitFor();
  await page.getByRole('button', { name: 'Reset' }).click();
  await page.getByText('No change yet').waitFor();
  expect(troubles).toEqual([]);
});
