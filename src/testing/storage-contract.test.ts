import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import nodeTest from 'node:test';
import { test } from 'vitest';
import { InMemoryCheckpointStorage } from '../storage/memory/memory-storage.ts';
import { type ContractRunner, storageContract } from './storage-contract.ts';

const open = async () => new InMemoryCheckpointStorage();

/** Registers the suite with a runner that only remembers titles. */
function register(skip: { readonly [ruleId: string]: string }): { readonly run: string[]; readonly skipped: string[] } {
  const titles = { run: [] as string[], skipped: [] as string[] };
  const note = (title: string) => titles.run.push(title);
  const fake = Object.assign(note, { skip: (title: string) => titles.skipped.push(title) });
  storageContract('memory', { describe: (_, body) => body(), test: fake, open, skip });
  return titles;
}

test('every rule of the specification has a test, and every test a rule', async () => {
  const spec = await readFile(new URL('../../docs/SPEC.md', import.meta.url), 'utf8');
  const rules = [...spec.matchAll(/^- \*\*\[(storage\.\d+)\]\*\*/gm)].map(([, id]) => id);
  const { run, skipped } = register({});
  const cited = [...run, ...skipped].map((title) => /^\[(storage\.\d+)\] /.exec(title)?.[1]);
  assert.deepEqual(new Set(cited), new Set(rules));
});

test('a skipped rule is shown with its reason, and an unknown one is refused', () => {
  const { run, skipped } = register({ 'storage.16': 'the bucket only grows' });
  assert.ok(run.every((title) => !title.startsWith('[storage.16]')));
  assert.ok(
    skipped
      .filter((title) => title.startsWith('[storage.16]'))
      .every((title) => title.endsWith('(skipped: the bucket only grows)')),
  );
  assert.throws(() => register({ 'storage.999': 'no such rule' }), RangeError);
});

test('the runner of node fits, and its `skip` is the one that the suite calls', () => {
  const runner: ContractRunner = nodeTest;
  assert.equal(typeof runner.test.skip, 'function');
});
