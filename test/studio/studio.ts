import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import chromium from '@sparticuz/chromium';
import { type Browser, type BrowserContext, type Page, chromium as playwright } from 'playwright-core';
import { afterAll, beforeAll, onTestFinished } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { createServer, type Server, type ServerOptions } from '../../src/server/index.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { builtFolder } from '../support/on-demand.ts';
import { temporaryFolder } from '../support/storages.ts';

/** How long a page may take to show something on a busy machine. */
const TIMEOUT_MS = 120_000;

/** A real Chromium for the tests of a file: it comes with the development dependencies, nothing is downloaded. */
export function startBrowser(): { open(options?: Parameters<Browser['newContext']>[0]): Promise<BrowserContext> } {
  let browser: Browser | undefined;
  beforeAll(async () => {
    const args = ['--no-sandbox', '--disable-gpu', '--font-render-hinting=none'];
    browser = await playwright.launch({ executablePath: await chromium.executablePath(), args });
  });
  afterAll(async () => browser?.close());
  return {
    async open(options = {}) {
      if (browser === undefined) throw new Error('The browser has not been started');
      const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale: 'en-US', ...options });
      context.setDefaultTimeout(TIMEOUT_MS);
      onTestFinished(() => context.close());
      return context;
    },
  };
}

/** A studio over a storage: the address with its token, and the manager, to save beside it. */
export type Studio = {
  readonly url: string;
  readonly accessUrl: string;
  readonly manager: CheckpointManager;
  readonly server: Server;
  readonly path: string;
};

const shared = mkdtempSync(join(tmpdir(), 'savestate-'));
const demoPath = join(shared, 'demo.db');
/** The demo, made once for the tests of a file. */
let demo: Promise<void> | undefined;
afterAll(() => rmSync(shared, { recursive: true, force: true }));

/** Like a program of a user's, it imports the package by its name, so that is built first. */
async function makeSample(): Promise<void> {
  builtFolder();
  const { makeDemo } = await import('../../examples/studio/demo.mjs');
  await makeDemo(demoPath);
}

/** Serves the built studio over a new database; with the demo in it unless told otherwise. */
export async function openStudio({
  isEmpty = false,
  ...options
}: ServerOptions & { isEmpty?: boolean } = {}): Promise<Studio> {
  const path = join(temporaryFolder(), 'studio.db');
  if (!isEmpty) {
    demo ??= makeSample();
    await demo;
    copyFileSync(demoPath, path);
  }
  const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path, durability: 'process' }) });
  const server = createServer(manager, {
    studio: join(builtFolder(), 'studio'),
    address: `sqlite:${path}`,
    ...options,
  });
  const { url, accessUrl } = await server.listen();
  onTestFinished(async () => {
    await server.close();
    await manager.close();
  });
  return { url, accessUrl, manager, server, path };
}

/** A page of the studio, and what its console complained about. */
export async function visit(
  context: BrowserContext,
  { accessUrl }: Studio,
  address: string,
): Promise<{ page: Page; troubles: string[] }> {
  const page = await context.newPage();
  const troubles: string[] = [];
  page.on('console', (message) => message.type() === 'error' && troubles.push(message.text()));
  page.on('pageerror', (error) => troubles.push(String(error)));
  const url = new URL(accessUrl);
  await page.goto(`${url.origin}${address}${url.hash}`);
  return { page, troubles };
}

/** The rows of the graph, as screen readers have them. */
export function rowsOf(page: Page): Promise<string[]> {
  return page.getByRole('treegrid', { name: 'Checkpoints' }).getByRole('row').allTextContents();
}
