// Traces of an agent that runs in circles come in, drift finds it, and the run goes out for other tools: node traces.mjs
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const folder = mkdtempSync(join(tmpdir(), 'savestate-traces-'));
const program = join(dirname(createRequire(import.meta.url).resolve('savestate/package.json')), 'dist/cli/main.js');
const savestate = (...args) => execFileSync(process.execPath, [program, ...args], { cwd: folder, encoding: 'utf8' });

console.log('1. An agent sent its calls to OpenTelemetry; the file comes in as a session.');
const told = {
  'gen_ai.operation.name': 'execute_tool',
  'gen_ai.conversation.id': 'order-1042',
  'gen_ai.tool.name': 'search',
  'gen_ai.tool.call.arguments': '{"query":"refund"}',
  'gen_ai.tool.call.result': 'nothing found',
};
const attributes = Object.entries(told).map(([key, stringValue]) => ({ key, value: { stringValue } }));
const spans = Array.from({ length: 12 }, (_, at) => ({
  traceId: '5b8efff798038103d269b633813fc60c',
  spanId: (at + 1).toString(16).padStart(16, '0'),
  name: 'execute_tool search',
  startTimeUnixNano: `${1_760_000_000_000 + at * 1_000}000000`,
  endTimeUnixNano: `${1_760_000_000_500 + at * 1_000}000000`,
  attributes,
}));
writeFileSync(join(folder, 'traces.json'), JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans }] }] }));
console.log(`   ${savestate('import', 'otlp', 'traces.json', '--quiet').trim()}`);

console.log('2. Drift looks at it.');
const { status, kinds } = JSON.parse(savestate('drift', '--json'));
console.log(`   ${status}: ${kinds.join(', ')}`);

console.log('3. It goes out as a trajectory (ATIF).');
savestate('export', '--format', 'atif', '-o', 'run.json');
const { schema_version: version, steps } = JSON.parse(readFileSync(join(folder, 'run.json'), 'utf8'));
console.log(`   ${version}: ${steps.length} steps`);
rmSync(folder, { recursive: true });
