import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SCRATCH_ROOT } from '../../../test/support/scratch-root.ts';
import { anyCharacter } from '../../../test/support/values.ts';
import { StateCodec } from '../../core/codec/state-codec.ts';
import { applyRestore } from './apply-restore.ts';
import { captureWorkspace } from './capture-workspace.ts';
import { planRestore } from './plan-restore.ts';
import { WorkspaceCache } from './workspace-cache.ts';

type Node = {
  readonly path: string;
  readonly kind: 'file' | 'folder' | 'link';
  readonly bytes: Uint8Array;
  readonly mode: number;
};

const name = fc.oneof(
  fc.constantFrom('a', 'b', 'c', 'A', 'a.txt', '__proto__', 'constructor', ' ', 'é', '-x', '10', '9'),
  fc
    .string({ unit: anyCharacter, minLength: 1, maxLength: 4 })
    .filter((text) => text.isWellFormed() && !/[/\0]/.test(text) && !/^\.{1,2}$/.test(text)),
);
const node: fc.Arbitrary<Node> = fc.record({
  path: fc.array(name, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('/')),
  kind: fc.constantFrom('file', 'file', 'file', 'folder', 'link'),
  bytes: fc.oneof(
    fc.uint8Array({ maxLength: 30 }),
    fc.string().map((text) => Buffer.from(text)),
  ),
  mode: fc.constantFrom(0o644, 0o755, 0o600),
});
const tree = fc.array(node, { maxLength: 15 });

/** Makes what it can; where something of another kind is in the way, that goes first. */
function make(folder: string, nodes: readonly Node[]): void {
  for (const { path, kind, bytes, mode } of nodes) {
    const place = join(folder, path);
    try {
      if (bytes.length % 3 === 0) rmSync(place, { recursive: true, force: true });
      mkdirSync(dirname(place), { recursive: true });
      if (kind === 'folder') mkdirSync(place);
      else if (kind === 'link') symlinkSync(['a', 'b/c', '.', 'nowhere'][bytes.length % 4] as string, place);
      else writeFileSync(place, bytes, { flag: bytes.length % 2 === 0 ? 'w' : 'wx' });
      if (kind !== 'link') chmodSync(place, kind === 'file' ? mode : mode | 0o700);
    } catch {
      // A file is where a folder would have to be, or the other way round: one node less.
    }
  }
}

/** What is there, told without any of the code under test. */
function describeTree(folder: string): Map<string, string> {
  const found = new Map<string, string>();
  const visit = (prefix: string) => {
    for (const entry of readdirSync(join(folder, prefix), { withFileTypes: true })) {
      const path = prefix === '' ? entry.name : `${prefix}/${entry.name}`;
      const mode = (lstatSync(join(folder, path)).mode & 0o777).toString(8);
      if (entry.isSymbolicLink()) found.set(path, `link ${readlinkSync(join(folder, path))}`);
      else if (entry.isDirectory()) {
        found.set(path, `folder ${mode}`);
        visit(path);
      } else found.set(path, `file ${mode} ${readFileSync(join(folder, path)).toString('hex')}`);
    }
  };
  visit('');
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** What a checkpoint makes of a state. */
function roundTrip(state: unknown): unknown {
  const codec = new StateCodec();
  const { root, chunks } = codec.encode(state);
  const known = new Map(chunks.map((chunk) => [chunk.digest, chunk]));
  return codec.decode(root, (digest) => known.get(digest) as never);
}

describe('[workspace.6] whatever happens to a folder', () => {
  test('plan and apply bring back what was captured, byte for byte', async () => {
    await fc.assert(
      fc.asyncProperty(tree, tree, fc.boolean(), async (before, after, isCached) => {
        const folder = mkdtempSync(join(SCRATCH_ROOT, 'savestate-tree-'));
        try {
          make(folder, before);
          const captured = describeTree(folder);
          const cache = isCached ? { cache: new WorkspaceCache() } : {};
          const state = roundTrip(await captureWorkspace(folder, {}, cache));
          make(folder, after);
          const mutated = describeTree(folder);
          const plan = await planRestore(state, folder, cache);
          expect(describeTree(folder)).toEqual(mutated);
          const report = await applyRestore(plan);
          expect(report).toMatchObject({ status: 'complete', failed: [], left: [] });
          expect(describeTree(folder)).toEqual(captured);
          expect((await planRestore(state, folder, cache)).changes).toEqual([]);
          const other = join(folder, 'elsewhere/new');
          await applyRestore(await planRestore(state, other));
          expect(describeTree(other)).toEqual(captured);
        } finally {
          rmSync(folder, { recursive: true, force: true });
        }
      }),
      { numRuns: 200 },
    );
  });
});
