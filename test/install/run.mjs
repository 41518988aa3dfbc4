// Packs the package and installs it as a user would: alone with engine-strict, and beside the newest and the previous major of each optional peer.
// Each installation must succeed without warnings about us, import every entry whose peers are there, and type-check with skipLibCheck off.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');
const { exports: entries } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const NEEDS = { './langgraph': '@langchain/langgraph' };
const TYPES = ['typescript@~5.9', '@types/node@^20', '@types/pg@^8'];

/** What is installed first, as in a project that exists; `without` names entries whose peers are too old there. */
const PROJECTS = [
  { name: 'alone', peers: [] },
  { name: 'pg', peers: ['pg@8'] },
  { name: 'ai 6', peers: ['ai@6', '@ai-sdk/openai@3', '@ai-sdk/azure@3'] },
  { name: 'ai 7', peers: ['ai@7', '@ai-sdk/openai@4', '@ai-sdk/azure@4'] },
  { name: 'LangGraph 0', peers: ['@langchain/langgraph@0.4', '@langchain/core@0.3'], without: ['./langgraph'] },
  { name: 'LangGraph 1', peers: ['@langchain/langgraph@1', '@langchain/core@1', '@langchain/langgraph-checkpoint@1'] },
];

const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)));

function run(command, args, cwd) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, env, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${status}:\n${stdout}${stderr}`);
  return { stdout, stderr };
}

function install(folder, packages, ...flags) {
  const { stderr } = run(
    'npm',
    ['install', '--no-audit', '--no-fund', '--prefer-offline', ...flags, ...packages],
    folder,
  );
  const complaint = stderr.split('\n').find((line) => /EBADENGINE|ERESOLVE/.test(line) && /savestate/.test(line));
  if (complaint !== undefined) throw new Error(complaint);
}

function entriesFor({ peers, without = [] }) {
  const isThere = (entry) => NEEDS[entry] === undefined || peers.some((peer) => peer.startsWith(`${NEEDS[entry]}@`));
  return Object.keys(entries).filter(
    (entry) => entry !== './package.json' && isThere(entry) && !without.includes(entry),
  );
}

function check(project, tarball) {
  const folder = mkdtempSync(join(tmpdir(), 'savestate-install-'));
  try {
    writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }\n');
    if (project.peers.length > 0) install(folder, project.peers);
    install(folder, [tarball], ...(project.peers.length === 0 ? ['--engine-strict'] : []));
    const names = entriesFor(project).map((entry) => entry.replace(/^\./, 'savestate'));
    writeFileSync(join(folder, 'a.mjs'), names.map((name) => `import '${name}';\n`).join(''));
    run(process.execPath, ['a.mjs'], folder);
    install(folder, TYPES);
    writeFileSync(join(folder, 'a.ts'), names.map((name, i) => `export * as e${i} from '${name}';\n`).join(''));
    const compilerOptions = {
      strict: true,
      module: 'nodenext',
      target: 'es2023',
      lib: ['es2023', 'esnext.disposable'],
      noEmit: true,
      skipLibCheck: false,
      types: ['node'],
    };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['a.ts'] }));
    const { stdout } = spawnSync('npx', ['tsc', '-p', '.'], { cwd: folder, env, encoding: 'utf8' });
    // LangChain's own declarations do not pass; ours must.
    const ours = stdout.split('\n').filter((line) => /^(a\.ts|node_modules\/savestate\/)/.test(line));
    if (ours.length > 0) throw new Error(ours.slice(0, 5).join('\n'));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const packed = mkdtempSync(join(tmpdir(), 'savestate-packed-'));
let failed = 0;
try {
  const { stdout } = run('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', packed], ROOT);
  const tarball = join(packed, stdout.trim().split('\n').at(-1));
  for (const project of PROJECTS) {
    try {
      check(project, tarball);
      console.log(`ok      install: ${project.name}`);
    } catch (error) {
      failed++;
      console.log(`FAILED  install: ${project.name}\n${error.message}`);
    }
  }
} finally {
  rmSync(packed, { recursive: true, force: true });
}
console.log(`install: ${PROJECTS.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
