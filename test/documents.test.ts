import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { copyFileSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { LATER } from './support/later.ts';
import { SQLITE_FILE } from './support/official-savers.ts';
import './support/built.ts';
import { SCRATCH_ROOT } from './support/scratch-root.ts';
import { temporaryFolder } from './support/storages.ts';

const ROOT = resolve(import.meta.dirname, '..');
const ENTRIES: [RegExp, string][] = [
  [/'savestate'/g, 'src/index.ts'],
  [/'savestate\/workers'/g, 'src/manager/workers/index.ts'],
  [/'savestate\/core'/g, 'src/core/index.ts'],
  [/'savestate\/storage'/g, 'src/storage/index.ts'],
  [/'savestate\/postgres'/g, 'src/storage/postgres/index.ts'],
  [/'savestate\/server'/g, 'src/server/index.ts'],
  [/'savestate\/client'/g, 'src/server/client/index.ts'],
  [/'savestate\/drift'/g, 'src/runtime/drift/index.ts'],
  [/'savestate\/agents'/g, 'src/runtime/index.ts'],
  [/'savestate\/repair'/g, 'src/runtime/repair/index.ts'],
  [/'savestate\/loop'/g, 'src/runtime/loop/index.ts'],
  [/'savestate\/workflow'/g, 'src/runtime/workflow/index.ts'],
  [/'savestate\/fleet'/g, 'src/runtime/fleet/index.ts'],
  [/'savestate\/memory'/g, 'src/memory/index.ts'],
  [/'savestate\/encryption'/g, 'src/storage/encryption/index.ts'],
  [/'savestate\/testing'/g, 'src/testing/index.ts'],
  [/'savestate\/langgraph'/g, 'src/adapter/langgraph/index.ts'],
  [/'savestate\/openai-agents'/g, 'src/adapter/openai-agents/index.ts'],
  [/'@openai\/agents-core'/g, 'node_modules/@openai/agents-core/dist/index.mjs'],
  [/'@openai\/agents-core\/testing'/g, 'node_modules/@openai/agents-core/dist/testing/index.mjs'],
  [/'savestate\/ai-sdk'/g, 'src/adapter/ai-sdk/index.ts'],
  [/'ai'/g, 'node_modules/ai/dist/index.mjs'],
  [/'ai\/test'/g, 'node_modules/ai/dist/test/index.mjs'],
  [/'@langchain\/langgraph'/g, 'node_modules/@langchain/langgraph/dist/index.js'],
  [/'savestate\/opentelemetry'/g, 'src/adapter/opentelemetry/index.ts'],
  [/'savestate\/mcp'/g, 'src/server/mcp/index.ts'],
  [/'@modelcontextprotocol\/server'/g, 'node_modules/@modelcontextprotocol/server/dist/index.mjs'],
  [/'@modelcontextprotocol\/client'/g, 'node_modules/@modelcontextprotocol/client/dist/index.mjs'],
  [/'zod'/g, 'node_modules/zod/index.js'],
];

/** Documents that say nothing for which a reader would need a cast. */
const WITHOUT_CASTS = ['README.md', 'docs/TUTORIAL.md', 'docs/GUIDE.md'];

/** Documents whose examples run. */
const DOCUMENTS = [
  'GUIDE',
  'AGENTS',
  'MODELS',
  'REPAIR',
  'LOOP',
  'WORKFLOWS',
  'FLEET',
  'MEMORY',
  'OPENAI-AGENTS',
  'OPENTELEMETRY',
  'MCP',
  'AI-SDK',
  'ENCRYPTION',
].map((name) => `docs/${name}.md`);

/** Documents whose examples need a server, or go on from each other: they are type-checked only. */
const TYPED = ['README.md', ...['TUTORIAL', 'DRIFT', 'POSTGRES', 'SERVER'].map((name) => `docs/${name}.md`)];

/** The TypeScript examples of a document, with the line each begins at. */
function examplesOf(document: string): [title: string, code: string][] {
  const text = readFileSync(join(ROOT, document), 'utf8');
  return [...text.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map((match) => {
    const line = text.slice(0, match.index).split('\n').length;
    return [`${document}:${line}`, match[1] ?? ''];
  });
}

const startFolder = process.cwd();

/** Runs an example in an empty folder, as a reader would who copied it into a file. */
async function run(code: string, folder = temporaryFolder()): Promise<string[]> {
  const lines: string[] = [];
  vi.spyOn(console, 'log').mockImplementation((...parts: unknown[]) => void lines.push(parts.map(String).join(' ')));
  const file = join(folder, `example-${randomUUID()}.ts`);
  writeFileSync(
    file,
    ENTRIES.reduce((text, [name, entry]) => text.replace(name, JSON.stringify(join(ROOT, entry))), code),
  );
  process.chdir(folder);
  await import(file);
  return lines;
}

afterEach(() => {
  process.chdir(startFolder);
  vi.restoreAllMocks();
});

describe('examples', () => {
  test('the one in the README says what it says it says', async () => {
    const [[, code = ''] = ['', '']] = examplesOf('README.md');
    expect(readFileSync(join(ROOT, 'examples/quick-start.ts'), 'utf8')).toContain(code);
    const folder = temporaryFolder();
    for (let again = 0; again < 2; again++) expect(await run(code, folder)).toEqual(['2 $.messages[1].content']);
  });

  test.each(DOCUMENTS.flatMap(examplesOf))('%s runs', async (_, code) => {
    await run(code);
  });

  test('docs/LANGGRAPH.md runs, each example after the one before', async () => {
    const folder = temporaryFolder();
    copyFileSync(SQLITE_FILE, join(folder, 'old-threads.db'));
    const lines = await run(
      examplesOf('docs/LANGGRAPH.md')
        .map(([, code]) => code)
        .join(''),
      folder,
    );
    expect(lines.map((line) => line.split(' ').slice(1, 3).join(' '))).toEqual(['main 1', 'main 0', 'main -1']);
  });
});

describe('types', () => {
  test('every example holds in strict mode', { ...LATER, timeout: 300_000 }, () => {
    const folder = temporaryFolder(SCRATCH_ROOT);
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    const files = [...TYPED, ...DOCUMENTS].flatMap(examplesOf).map(([title, code]) => {
      const name = `${title.replaceAll(/[/.:]/g, '-')}.ts`;
      writeFileSync(join(folder, name), `${code}export {};\n`);
      return name;
    });
    const paths = Object.fromEntries(
      ENTRIES.filter(([, entry]) => entry.startsWith('src/')).map(([name, entry]) => [
        name.source.replaceAll(/['\\]/g, ''),
        [join(ROOT, entry.replace('src/', 'dist/').replace(/\.ts$/, '.d.ts'))],
      ]),
    );
    const compilerOptions = {
      noUnusedLocals: false,
      noUnusedParameters: false,
      noUncheckedIndexedAccess: false,
      paths,
    };
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({ extends: join(ROOT, 'tsconfig.json'), compilerOptions, files, include: [] }),
    );
    const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
    const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', folder], { cwd: folder, encoding: 'utf8' });
    expect([status, stdout]).toEqual([0, '']);
  });

  test.each(WITHOUT_CASTS.flatMap(examplesOf))('%s needs no cast', (_, code) => {
    const written = code.replaceAll(/\/\/.*$/gm, '').replaceAll(/^import[\s\S]*?;$/gm, '');
    expect(written).not.toMatch(/\bas\s+(?!const\b)|\w<[^>]*>\(.*\bany\b|\w!\./);
  });
});

test('docs/api is what the comments of the public names say, and each has one', () => {
  const script = join(ROOT, 'scripts/api-docs.mjs');
  const { stdout, stderr } = spawnSync(process.execPath, [script, '--check'], { encoding: 'utf8' });
  expect([stdout, stderr]).toEqual(['', '']);
});
