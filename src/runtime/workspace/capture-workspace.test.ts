import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { LATER } from '../../../test/support/later.ts';
import { StateCodec } from '../../core/codec/state-codec.ts';
import { captureWorkspace } from './capture-workspace.ts';
import { WorkspaceCache } from './workspace-cache.ts';
import { digestContent, type WorkspaceFile, type WorkspaceState } from './workspace-state.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'savestate-capture-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function write(path: string, content: string | Uint8Array = path): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), content);
}

const paths = ({ entries }: WorkspaceState) => Object.keys(entries);
const file = ({ entries }: WorkspaceState, path: string) => entries[path] as WorkspaceFile;

/** Sees every file as long settled, so that the cache is used at once. */
const settledCache = () => new WorkspaceCache({ now: () => Date.now() + 60_000 });

describe('[workspace.1] a capture', () => {
  test('holds files, folders and links by relative path, with permissions and contents', async () => {
    write('a.txt', 'héllo');
    write('bin/run.sh', '#!/bin/sh\n');
    chmodSync(join(folder, 'bin/run.sh'), 0o755);
    chmodSync(join(folder, 'a.txt'), 0o640);
    mkdirSync(join(folder, 'empty'), 0o755);
    chmodSync(join(folder, 'empty'), 0o700);
    symlinkSync('../a.txt', join(folder, 'bin/link'));
    symlinkSync('/etc/passwd', join(folder, 'out'));
    const state = await captureWorkspace(folder);
    expect({ ...state.entries }).toMatchObject({
      'a.txt': { kind: 'file', mode: 0o640, sizeBytes: 6, digest: digestContent('héllo'), content: 'héllo' },
      bin: { kind: 'folder' },
      'bin/link': { kind: 'link', target: '../a.txt' },
      'bin/run.sh': { kind: 'file', mode: 0o755, content: '#!/bin/sh\n' },
      empty: { kind: 'folder', mode: 0o700 },
      out: { kind: 'link', target: '/etc/passwd' },
    });
    expect(paths(state)).toHaveLength(6);
    expect(state.skipped).toEqual([]);
  });

  test('comes back from a checkpoint as it was, whatever the names and bytes', async () => {
    const names = ['__proto__', 'constructor', '10', '2', 'with space', 'new\nline', 'é', '$', '{"$":0}', '-rf', '...'];
    for (const name of names) write(name, name);
    for (let byte = 0; byte < 256; byte++) write(`bytes/${byte}`, Uint8Array.of(0x61, byte));
    write('bom', '\uFEFFtext');
    write('nul', 'text\0text');
    write('long', 'line of text\n'.repeat(10_000));
    write(
      'random',
      Uint8Array.from({ length: 40_000 }, (_, at) => (at * at * 31) >> 3),
    );
    const state = await captureWorkspace(folder);
    const codec = new StateCodec();
    const encoded = codec.encode({ workspace: state });
    const chunks = new Map(encoded.chunks.map((chunk) => [chunk.digest, chunk]));
    const decoded = codec.decode(encoded.root, (digest) => chunks.get(digest) as never);
    expect(decoded).toEqual({ workspace: state });
    expect(
      paths(state)
        .filter((path) => !path.startsWith('bytes'))
        .sort(),
    ).toEqual([...names, 'bom', 'long', 'nul', 'random'].sort());
    expect(file(state, 'nul').content).toBeInstanceOf(Uint8Array);
    for (const name of names) expect(Object.getOwnPropertyDescriptor(state.entries, name)?.value.content).toBe(name);
    for (const [path, entry] of Object.entries(state.entries)) {
      if (entry.kind !== 'file') continue;
      expect(Buffer.from(entry.content as Uint8Array).equals(readFileSync(join(folder, path)))).toBe(true);
    }
  });

  test('is deeply frozen', async () => {
    write('a/b', 'x');
    symlinkSync('b', join(folder, 'a/link'));
    const state = await captureWorkspace(folder);
    const parts = [state, state.entries, state.skipped, state.ignored, ...Object.values(state.entries)];
    expect(parts.map(Object.isFrozen)).toEqual(parts.map(() => true));
  });

  test('does not follow links, and leaves out what is no file', async () => {
    const outside = mkdtempSync(join(tmpdir(), 'savestate-outside-'));
    writeFileSync(join(outside, 'secret'), 'secret');
    symlinkSync(outside, join(folder, 'way-out'));
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    const state = await captureWorkspace(folder);
    expect(paths(state)).toEqual(['way-out']);
    expect(state.skipped).toEqual([{ path: 'pipe', reason: 'special' }]);
    rmSync(outside, { recursive: true });
  });

  test('leaves out names that are no UTF-8', async () => {
    writeFileSync(Buffer.concat([Buffer.from(`${folder}/bad-`), Buffer.from([0xff])]), 'x');
    const state = await captureWorkspace(folder);
    expect(paths(state)).toEqual([]);
    expect(state.skipped).toEqual([{ path: 'bad-\uFFFD', reason: 'name' }]);
  });

  test('of a folder that is not there fails with NOT_FOUND, and can be aborted', async () => {
    await expect(captureWorkspace(join(folder, 'no'))).rejects.toMatchObject({ code: 'NOT_FOUND' });
    write('file');
    await expect(captureWorkspace(join(folder, 'file'))).rejects.toMatchObject({ code: 'NOT_FOUND' });
    const signal = AbortSignal.abort(new Error('Enough.'));
    await expect(captureWorkspace(folder, {}, { signal })).rejects.toThrow('Enough.');
  });
});

describe('[workspace.1] limits', () => {
  test('a file over its limit keeps its digest, and is named', async () => {
    write('big', 'x'.repeat(101));
    write('fits', 'x'.repeat(100));
    const state = await captureWorkspace(folder, { maxFileBytes: 100 });
    expect(file(state, 'big')).toMatchObject({ sizeBytes: 101, digest: digestContent('x'.repeat(101)) });
    expect(file(state, 'big').content).toBeUndefined();
    expect(file(state, 'fits').content).toBe('x'.repeat(100));
    expect(state.skipped).toEqual([{ path: 'big', reason: 'file-limit' }]);
  });

  test('all together: what does not fit keeps its digest, and smaller files still go in', async () => {
    for (const [name, size] of [
      ['a', 60],
      ['b', 50],
      ['c', 40],
    ] as const)
      write(name, 'x'.repeat(size));
    const state = await captureWorkspace(folder, { maxTotalBytes: 100 });
    expect(['a', 'b', 'c'].map((name) => file(state, name).content !== undefined)).toEqual([true, false, true]);
    expect(state.skipped).toEqual([{ path: 'b', reason: 'total-limit' }]);
  });

  test('of entries: nothing beyond it is known', async () => {
    for (let at = 0; at < 10; at++) write(`d/${at}`);
    const state = await captureWorkspace(folder, { maxEntries: 4 });
    expect(paths(state)).toHaveLength(4);
    expect(state.skipped).toEqual([{ path: '.', reason: 'entry-limit' }]);
  });

  test('a large file is read whole', async () => {
    const content = Buffer.alloc(3_000_000, 'abcdefg');
    write('large', content);
    expect(file(await captureWorkspace(folder), 'large')).toMatchObject({
      digest: digestContent(content),
      sizeBytes: 3_000_000,
    });
    const bare = await captureWorkspace(folder, { maxFileBytes: 10 });
    expect(file(bare, 'large').digest).toBe(digestContent(content));
  });
});

describe('[workspace.2] the ignore list of a capture', () => {
  test('leaves out what can be made again and what is there to hold secrets', async () => {
    for (const path of [
      'node_modules/a/index.js',
      '.git/config',
      'x/__pycache__/a.pyc',
      '.env',
      'key.pem',
      'kept/a.js',
    ])
      write(path);
    expect(paths(await captureWorkspace(folder))).toEqual(['kept', 'kept/a.js', 'x']);
  });

  test('can be added to and taken back', async () => {
    for (const path of ['.env', 'data/a.csv', 'data/b.txt']) write(path);
    const state = await captureWorkspace(folder, { ignore: ['*.csv', '!.env'] });
    expect(paths(state)).toEqual(['.env', 'data', 'data/b.txt']);
    expect(state.ignored.slice(-2)).toEqual(['*.csv', '!.env']);
  });

  test('holds the files that a killed restore left behind', async () => {
    write('.savestate-0123456789abcdef.tmp');
    expect(paths(await captureWorkspace(folder))).toEqual([]);
  });
});

describe('[workspace.2] secrets', () => {
  const redact = (text: string) => (text.includes('sk-secret') ? JSON.stringify('[left out]') : undefined);

  function store(state: WorkspaceState) {
    const encoded = new StateCodec({ redact }).encode(state);
    const chunks = new Map(encoded.chunks.map((chunk) => [chunk.digest, chunk]));
    const texts = [encoded.root, ...encoded.chunks].map(({ text }) => text).join('\n');
    return { texts, state: new StateCodec().decode(encoded.root, (digest) => chunks.get(digest) as never) };
  }

  test('in files that are text are kept out of checkpoints, like those of every text', async () => {
    write('settings.json', '{"key":"sk-secret"}');
    const { texts, state } = store(await captureWorkspace(folder));
    expect(texts).not.toContain('sk-secret');
    expect(file(state as WorkspaceState, 'settings.json').digest).toBe(digestContent('{"key":"sk-secret"}'));
  });

  test('are kept if asked for', async () => {
    write('settings.json', '{"key":"sk-secret"}');
    const { state } = store(await captureWorkspace(folder, { keepSecrets: true }));
    const content = file(state as WorkspaceState, 'settings.json').content as Uint8Array;
    expect(Buffer.from(content).toString()).toBe('{"key":"sk-secret"}');
  });
});

describe('[workspace.3] a capture with a cache', () => {
  test('is the same object if nothing changed, and has the same parts where nothing did', async () => {
    for (const path of ['a', 'b/c', 'b/d']) write(path);
    write('z.bin', Uint8Array.of(0, 1, 2));
    symlinkSync('a', join(folder, 'link'));
    const cache = settledCache();
    const first = await captureWorkspace(folder, {}, { cache });
    expect(await captureWorkspace(folder, {}, { cache })).toBe(first);
    write('b/c', 'new');
    const second = await captureWorkspace(folder, {}, { cache });
    expect(second).not.toBe(first);
    const changed = paths(second).filter((path) => second.entries[path] !== first.entries[path]);
    expect(changed).toEqual(['b/c']);
    rmSync(join(folder, 'b/c'));
    expect(paths(await captureWorkspace(folder, {}, { cache }))).not.toContain('b/c');
  });

  test('reads again what was touched, and what is written back the same is the same', async () => {
    write('a', 'x');
    const cache = settledCache();
    const first = await captureWorkspace(folder, {}, { cache });
    utimesSync(join(folder, 'a'), 1000, 1000);
    expect(await captureWorkspace(folder, {}, { cache })).toBe(first);
    write('a', 'x');
    expect(await captureWorkspace(folder, {}, { cache })).toBe(first);
  });

  test('sees a change of the same size that leaves the times alone', async () => {
    write('a', 'old');
    const time = new Date(1_600_000_000_000);
    utimesSync(join(folder, 'a'), time, time);
    const cache = settledCache();
    await captureWorkspace(folder, {}, { cache });
    write('a', 'new');
    utimesSync(join(folder, 'a'), time, time);
    expect(file(await captureWorkspace(folder, {}, { cache }), 'a').content).toBe('new');
  });

  test('does not trust the times of a file that was changed just before it was read', async () => {
    write('a', 'x');
    const stats = lstatSync(join(folder, 'a'), { bigint: true });
    const isKnown = async (ageMs: number) => {
      const cache = new WorkspaceCache({ now: () => Number(stats.ctimeMs) + ageMs });
      await captureWorkspace(folder, {}, { cache });
      return cache.find({ path: 'a', stats }) !== undefined;
    };
    expect([await isKnown(-1000), await isKnown(0), await isKnown(2000), await isKnown(3000)]).toEqual([
      false,
      false,
      false,
      true,
    ]);
  });

  test('sees every one of many quick changes', LATER, async () => {
    const cache = new WorkspaceCache();
    for (let round = 0; round < 300; round++) {
      write('a', String(1000 + round));
      const { content } = file(await captureWorkspace(folder, {}, { cache }), 'a');
      expect(content).toBe(String(1000 + round));
    }
  });

  test('keeps to other options', async () => {
    write('a', 'x'.repeat(50));
    const cache = settledCache();
    const whole = await captureWorkspace(folder, {}, { cache });
    expect(file(await captureWorkspace(folder, { maxFileBytes: 10 }, { cache }), 'a').content).toBeUndefined();
    expect(file(await captureWorkspace(folder, { keepSecrets: true }, { cache }), 'a').content).toBeInstanceOf(
      Uint8Array,
    );
    expect(file(await captureWorkspace(folder, {}, { cache }), 'a')).toEqual(file(whole, 'a'));
  });
});

describe('[workspace.3] saving a capture', () => {
  const FILES = 2000;

  async function prepare() {
    for (let at = 0; at < FILES; at++) {
      const path = `d${at % 40}/f${at}.txt`;
      write(path, `${at}\n`.repeat(200 + (at % 300)));
      lutimesSync(join(folder, path), 1000, 1000);
    }
    for (let at = 0; at < 20; at++) write(`bin/${at}`, Buffer.alloc(50_000, at));
    const cache = settledCache();
    const capture = () => captureWorkspace(folder, {}, { cache });
    return { capture, codec: new StateCodec() };
  }

  test('costs what changed', LATER, async () => {
    const { capture, codec } = await prepare();
    const workspace = await capture();
    const first = codec.encode({ round: 0, workspace });
    expect(first.chunks.length).toBeGreaterThan(FILES);

    expect(await capture()).toBe(workspace);
    const unchanged = codec.encode({ round: 1, workspace }, first);
    expect(unchanged.chunks.length).toBeLessThanOrEqual(1);

    write('d7/f7.txt', 'changed');
    const changed = codec.encode({ round: 2, workspace: await capture() }, unchanged);
    const known = new Set(first.chunks.map(({ digest }) => digest));
    expect(changed.chunks.filter(({ digest }) => !known.has(digest)).length).toBeLessThanOrEqual(6);
  });

  test('stores equal files once, under whatever names', async () => {
    const content = Array.from({ length: 3000 }, (_, at) => `line ${at * 7919}\n`).join('');
    write('a.txt', content);
    const { codec, cache } = { codec: new StateCodec(), cache: settledCache() };
    const before = codec.encode({ workspace: await captureWorkspace(folder, {}, { cache }) });
    write('copy/b.txt', content);
    const after = codec.encode({ workspace: await captureWorkspace(folder, {}, { cache }) }, before);
    const known = new Set(before.chunks.map(({ digest }) => digest));
    const added = after.chunks.filter(({ digest }) => !known.has(digest));
    expect(added.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThan(content.length / 10);
  });
});
