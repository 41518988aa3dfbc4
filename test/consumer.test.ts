import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { installWithout } from './support/install-without.ts';
import { LATER } from './support/later.ts';

const ROOT = resolve(import.meta.dirname, '..');
const { exports: entries, peerDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  exports: Record<string, string | Record<string, string>>;
  peerDependencies: Record<string, string>;
};

/** Entries around somebody else's package: they are of no use without it. */
const FOREIGN = /adapter\/|server\/mcp\//;
const names = Object.entries(entries)
  .filter(([, to]) => typeof to !== 'string' && !FOREIGN.test(to.default ?? ''))
  .map(([entry]) => entry.replace('.', 'savestate'));

const PROGRAM = `import { open, type Session } from 'savestate';
type Chat = { messages: { role: 'user' | 'assistant'; content: string }[] };
await using manager = await open('memory:');
const session: Session<Chat> = await manager.session<Chat>('chat', { initial: { messages: [] } });
await session.update((chat) => chat.messages.push({ role: 'user', content: 'Hello' }));
const first: string | undefined = session.state.messages[0]?.content;
const answer: string = await session.step('answer', async () => 'Hi.');
const other = await session.fork({ edit: (chat) => { chat.messages.length = 0; } });
export const found = [first, answer, other.branch, (await session.load('@~0')).messages.length];
`;

/** A project that has this package, and none of its optional peers. */
function createProject(): string {
  const peers = new Set(Object.keys(peerDependencies).map((name) => name.split('/')[0] ?? name));
  const folder = installWithout(...peers);
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }\n');
  writeFileSync(join(folder, 'entries.ts'), names.map((name, at) => `export * as e${at} from '${name}';\n`).join(''));
  writeFileSync(join(folder, 'program.ts'), PROGRAM);
  return folder;
}

test('projects type-check, libraries too, whatever their module resolution, without any optional peer', {
  ...LATER,
  timeout: 300_000,
}, () => {
  const folder = createProject();
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  for (const [module, moduleResolution] of [
    ['nodenext', 'nodenext'],
    ['esnext', 'bundler'],
  ]) {
    const compilerOptions = {
      strict: true,
      exactOptionalPropertyTypes: true,
      module,
      moduleResolution,
      target: 'es2022',
      lib: ['es2023', 'esnext.disposable'],
      noEmit: true,
      skipLibCheck: false,
      types: ['node'],
    };
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({ compilerOptions, files: ['entries.ts', 'program.ts'] }),
    );
    const { status, stdout, stderr } = spawnSync(process.execPath, [tsc, '-p', '.'], {
      cwd: folder,
      encoding: 'utf8',
    });
    expect([moduleResolution, status, stdout, stderr]).toEqual([moduleResolution, 0, '', '']);
  }
});

test('every entry can be required and imported', () => {
  const folder = createProject();
  const both = `for (const name of ${JSON.stringify(names)}) { require(name); await import(name); }`;
  const code = `const { createRequire } = await import('node:module'); const require = createRequire('${folder}/'); ${both}`;
  const options = { cwd: folder, encoding: 'utf8', env: { ...process.env, NODE_NO_WARNINGS: '1' } } as const;
  expect(execFileSync(process.execPath, ['--input-type=module', '-e', code], options)).toBe('');
}, 120_000);

test('the map of entries names types first and files that are there', () => {
  const folder = createProject();
  for (const [entry, to] of Object.entries(entries)) {
    if (typeof to === 'string') continue;
    expect([entry, Object.keys(to)[0], Object.keys(to).at(-1)]).toEqual([entry, 'types', 'default']);
    for (const path of Object.values(to))
      expect(existsSync(join(folder, 'node_modules/savestate', path)), path).toBe(true);
  }
}, 120_000);
