// Packs the package and installs it as a user would: alone with engine-strict, and beside older and newer majors of its optional peers.
// Each installation must succeed without warnings about us. Every entry whose peers are there is imported and required, and type-checks
// with skipLibCheck off; every other entry loads, too, or says what to install. The examples run there, and leave behind what they say.
import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');
const read = (name) => JSON.parse(readFileSync(join(ROOT, name), 'utf8'));
const { exports: entries } = read('package.json');
const { packages } = read('package-lock.json');
const versionOf = (name) => packages[`node_modules/${name}`].version;
/** A package with the version that the tests run with, if it has none: what is published meanwhile changes nothing here. */
const versioned = (name) => (name.lastIndexOf('@') > 0 ? name : `${name}@${versionOf(name)}`);

/** The peer that an entry is made for: nobody imports it without. */
const NEEDS = {
  './postgres': 'pg',
  './langgraph': '@langchain/langgraph',
  './claude': '@anthropic-ai/claude-agent-sdk',
  './openai-agents': '@openai/agents-core',
  './ai-sdk': 'ai',
  './mcp': '@modelcontextprotocol/server',
};

/** What is installed first, as in a project that exists; `without` names entries whose peers are too old there. */
const PROJECTS = [
  {
    name: 'alone',
    peers: ['typescript@~5.9'],
    flags: ['--engine-strict'],
    examples: ['tour/tour', 'mathchat/mathchat'],
    leaves: ['logs'],
  },
  {
    name: 'LangGraph 0 and AI SDK 6',
    peers: ['@langchain/langgraph@0.4', '@langchain/core@0.3', 'ai'],
    without: ['./langgraph'],
    examples: ['ai-sdk/orders'],
  },
  {
    name: 'LangGraph 1, AI SDK 7, pg, Claude Agent SDK, OpenAI Agents SDK, MCP',
    peers: [
      '@langchain/langgraph',
      '@langchain/langgraph-checkpoint',
      '@langchain/langgraph-sdk',
      '@langchain/core',
      'pg',
      '@types/pg',
      `ai@${versionOf('ai7')}`,
      '@anthropic-ai/claude-agent-sdk',
      '@openai/agents-core',
      '@modelcontextprotocol/server',
      '@modelcontextprotocol/client',
    ],
    examples: ['langgraph/approval', 'claude/sessions', 'openai-agents/refund'],
  },
];

const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)));

/** What a program printed, and its exit code. */
async function run(command, args, cwd) {
  const program = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const printed = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr']) program[name].on('data', (bytes) => (printed[name] += bytes));
  const status = await new Promise((done, fail) => program.on('error', fail).on('close', done));
  return { ...printed, status };
}

async function succeed(command, args, cwd) {
  const { status, stdout, stderr } = await run(command, args, cwd);
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${status}:\n${stdout}${stderr}`);
  return { stdout, stderr };
}

async function install(folder, packages, flags) {
  const { stderr } = await succeed('npm', ['install', '--no-audit', '--no-fund', ...flags, ...packages], folder);
  const complaint = stderr.split('\n').find((line) => /EBADENGINE|ERESOLVE/.test(line) && /savestate/.test(line));
  if (complaint !== undefined) throw new Error(complaint);
}

/** The registry cannot be reached, or has no set of these peers that fits together: no fault of ours, so the project is skipped. */
class Unavailable extends Error {}
const UNREACHABLE = /npm error code (ENOTFOUND|ETIMEDOUT|ECONNRESET|ECONNREFUSED|EAI_AGAIN|E5\d\d)/;
const UNRESOLVED = /npm error code (ERESOLVE|ETARGET|E404)/;

async function installOrSkip(folder, { packages, flags, isOurs = false }) {
  await install(folder, packages, flags).catch((error) => {
    const isUnavailable = UNREACHABLE.test(error.message) || (!isOurs && UNRESOLVED.test(error.message));
    throw isUnavailable ? new Unavailable(error.message, { cause: error }) : error;
  });
}

/** The names of the entries whose peers are there, and of the others. */
function entriesFor({ peers, without = [] }) {
  const isThere = (entry) =>
    !without.includes(entry) &&
    (NEEDS[entry] === undefined || peers.map(versioned).some((peer) => peer.startsWith(`${NEEDS[entry]}@`)));
  const names = Object.keys(entries).filter((entry) => entry !== './package.json');
  const named = (some) => some.map((entry) => entry.replace(/^\./, 'savestate'));
  return [named(names.filter(isThere)), named(names.filter((entry) => !isThere(entry)))];
}

/** Imports and requires what must be there; what need not be there loads, or says what to install. */
function loading([present, absent]) {
  return `import { createRequire } from 'node:module';
const require = createRequire(import.meta.url);
for (const name of ${JSON.stringify(present)}) {
  const [imported, required] = [await import(name), require(name)];
  const missing = Object.keys(required).filter((key) => imported[key] === undefined);
  if (missing.length > 0) throw new Error(\`\${name} lacks \${missing}\`);
}
for (const name of ${JSON.stringify(absent)})
  await import(name).catch((error) => {
    if (!/^savestate\\/[a-z-]+ needs .* Install it: npm install /.test(error.message)) throw error;
  });
`;
}

const compilerOptions = {
  strict: true,
  module: 'nodenext',
  target: 'es2023',
  lib: ['es2023', 'esnext.disposable'],
  noEmit: true,
  skipLibCheck: false,
  types: ['node'],
};

/** The first lines that the compiler says about us. LangChain's own declarations do not pass; ours must. */
async function typeProblems(folder, names, tsc) {
  const files = { 'a.ts': (name, i) => `export * as e${i} from '${name}';\n` };
  files['b.cts'] = (name, i) => `import e${i} = require('${name}');\nexport { e${i} };\n`;
  for (const [file, line] of Object.entries(files)) writeFileSync(join(folder, file), names.map(line).join(''));
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: Object.keys(files) }));
  const { stdout } = await run(process.execPath, [tsc, '-p', '.'], folder);
  const ours = stdout.split('\n').filter((line) => /^(a\.ts|b\.cts|node_modules\/savestate\/|error)/.test(line));
  return ours.slice(0, 5);
}

async function tryExamples(folder, { examples, leaves = [] }) {
  const before = readdirSync(folder);
  for (const name of examples) await succeed(process.execPath, [`node_modules/savestate/examples/${name}.mjs`], folder);
  const left = readdirSync(folder).filter((name) => !before.includes(name) && !leaves.includes(name));
  if (left.length > 0) throw new Error(`The examples ${examples.join(', ')} wrote to the working directory: ${left}`);
}

async function check(project, tarball) {
  const folder = mkdtempSync(join(tmpdir(), 'savestate-install-'));
  try {
    writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }\n');
    // Optional packages of others are programs for this machine, and large; ours is SQLite for Node 20.
    const flags = project.flags ?? ['--omit=optional'];
    const packages = ['@types/node', '@photostructure/sqlite', ...project.peers].map(versioned);
    await installOrSkip(folder, { packages, flags });
    await installOrSkip(folder, { packages: [tarball], flags, isOurs: true });
    const [present, absent] = entriesFor(project);
    writeFileSync(join(folder, 'a.mjs'), loading([present, absent]));
    await succeed(process.execPath, ['a.mjs'], folder);
    const home = project.peers.some((peer) => peer.startsWith('typescript@')) ? folder : ROOT;
    const problems = await typeProblems(folder, present, join(home, 'node_modules/typescript/bin/tsc'));
    if (problems.length > 0) throw new Error(problems.join('\n'));
    await tryExamples(folder, project);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const packed = mkdtempSync(join(tmpdir(), 'savestate-packed-'));
const begun = performance.now();
let failed = 0;
let skipped = 0;
try {
  const args = ['pack', '--ignore-scripts', '--silent', '--pack-destination', packed];
  const tarball = join(packed, (await succeed('npm', args, ROOT)).stdout.trim().split('\n').at(-1));
  const report = (line) => console.log(`${line} (${Math.round((performance.now() - begun) / 1000)} s)`);
  await Promise.all(
    PROJECTS.map((project) =>
      check(project, tarball).then(
        () => report(`ok      install: ${project.name}`),
        (error) => {
          const isSkipped = error instanceof Unavailable;
          if (isSkipped) skipped++;
          else failed++;
          report(`${isSkipped ? 'SKIPPED' : 'FAILED'}  install: ${project.name}\n${error.message}\n`);
        },
      ),
    ),
  );
} finally {
  rmSync(packed, { recursive: true, force: true });
}
console.log(`install: ${PROJECTS.length - failed - skipped} passed, ${failed} failed, ${skipped} skipped`);
process.exitCode = failed === 0 ? 0 : 1;
