import { describe, expect, test } from 'vitest';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import { type CheckpointId, createCheckpointIds, type SessionId } from '../../core/record/id.ts';
import { type Chunk, createChunk, type Digest, digestText } from '../../core/tree/chunk.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { type EffectRecord, formatEffect } from '../effect/effect-record.ts';
import { chainLine } from './export.ts';

const [ID, NEXT] = ['chk_01kq00000000000000000a', 'chk_01kq00000000000000000b'] as const;
const [HOUR, NOW] = [3_600_000, Date.parse('2027-01-01T00:00:00Z')];
const idAt = (timeMs: number): string =>
  createCheckpointIds({ now: () => timeMs, randomBytes: (size) => new Uint8Array(size) })();

type Line = { readonly [kind: string]: unknown };

/** A file as an export would write it, whatever is in it. */
function format(lines: readonly unknown[], start: unknown = START): string {
  let digest: Digest | '' = '';
  const texts = [start, ...lines].map((line) => JSON.stringify(line));
  for (const text of texts) digest = chainLine(digest, text);
  return [...texts, JSON.stringify({ end: { lines: texts.length, digest } }), ''].join('\n');
}

const START = { format: 'savestate-session', version: 1, sessionId: 's' };
const HEADER = { id: ID, sessionId: 's', branch: 'main', sequence: 1, type: 'manual', timestampMs: 1, stateBytes: 9 };

function checkpoint(
  changes: object = {},
  { text, refs }: { text: string; refs?: Digest[] } = { text: '{"a":1}' },
): Line {
  const root = createChunk({ text, refs: refs ?? [] });
  const body = JSON.stringify({ ...HEADER, stateDigest: root.digest, ...changes });
  return { checkpoint: { body, digest: digestText(body), root: { text: root.text, refs: root.refs } } };
}

function withBody(change: (body: string) => string): Line {
  const { checkpoint: made } = checkpoint() as { checkpoint: { body: string } };
  const body = change(made.body);
  return { checkpoint: { ...made, body, digest: digestText(body) } };
}

function withRoot(more: object): Line {
  const { checkpoint: made } = checkpoint() as { checkpoint: { root: object } };
  return { checkpoint: { ...made, root: { ...made.root, ...more } } };
}

function ref(target: string = ID, { kind = 'branch', name = 'main' } = {}): Line {
  return { ref: { kind, name, target } };
}

/** Forty chunks, each of which refers twice to the one before. */
function bomb(): Line[] {
  const chunks: Chunk[] = [createChunk({ text: '["xxxxxxxx"]', refs: [] })];
  for (let at = 0; at < 40; at++) {
    const { digest } = chunks.at(-1) as Chunk;
    chunks.push(createChunk({ text: '[{"$":0},{"$":0}]', refs: [digest, digest] }));
  }
  const top = (chunks.at(-1) as Chunk).digest;
  return [
    ...chunks.map(({ text, refs }) => ({ chunk: { text, refs } })),
    checkpoint({}, { text: '{"a":{"$":0}}', refs: [top] }),
    ref(),
  ];
}

const tombstone = (body: unknown): Line => ({ tombstone: { body: JSON.stringify(body), digest: digestText('x') } });

const FORGED: readonly [string, readonly unknown[], unknown?][] = [
  ['a branch to a checkpoint that does not exist', [checkpoint(), ref(NEXT)]],
  ['a tag to a checkpoint that does not exist', [checkpoint(), ref(), ref(NEXT, { kind: 'tag', name: 't' })]],
  ['an alias to a checkpoint of others', [checkpoint(), ref(), ref(NEXT, { kind: 'mark', name: 'lg:x' })]],
  ['a parent that is missing', [checkpoint({ id: NEXT, parentId: ID, parentDigest: digestText('') }), ref(NEXT)]],
  ['a checkpoint that is its own parent', [checkpoint({ parentId: ID }), ref()]],
  ['a checkpoint that is there twice', [checkpoint(), checkpoint(), ref()]],
  ['a checkpoint of another session', [checkpoint({ sessionId: 'other' }), ref()]],
  ['an odd id', [checkpoint({ id: '../../../pwn' }), ref('../../../pwn')]],
  ['a tombstone with an odd id', [checkpoint(), tombstone({ id: '../../../pwn' }), ref()]],
  ['a tombstone that is null', [checkpoint(), tombstone(null), ref()]],
  ...['timestampMs', 'sequence', 'stateBytes'].map((field): [string, Line[]] => [
    `a ${field} that is a text`,
    [checkpoint({ [field]: 'x' }), ref()],
  ]),
  ['a sequence below zero', [checkpoint({ sequence: -5 }), ref()]],
  ['a time that no date holds', [checkpoint({ timestampMs: 1e300 }), ref()]],
  ['a header with an unknown field', [checkpoint({ shell: 'sh' }), ref()]],
  ['a tombstone with an unknown field', [checkpoint(), tombstone({ id: NEXT, shell: 'sh' }), ref()]],
  ['a chunk with an unknown field', [{ chunk: { text: '1', refs: [], x: 1 } }, checkpoint(), ref()]],
  ['a root with an unknown field', [withRoot({ x: 1 }), ref()]],
  ['a first line with an unknown field', [checkpoint(), ref()], { ...START, shell: 'sh' }],
  ['a header with a field that comes twice', [withBody((body) => body.replace('{', '{"type":"manual",')), ref()]],
  ['a type that is null', [checkpoint({ type: null }), ref()]],
  ['a size below zero', [checkpoint({ stateBytes: -1e308 }), ref()]],
  ['effects in flight that are a text', [checkpoint({ effectsInFlight: 'abc' }), ref()]],
  ['a branch that is an object', [checkpoint({ branch: { a: 1 } }), ref()]],
  ['metadata with an instance of a class', [checkpoint({ metadata: { a: { $: ['class', 'X', 1] } } }), ref()]],
  ['metadata that cannot be read', [checkpoint({ metadata: { a: { $: ['Map', 5] } } }), ref()]],
  ['a user with an escape sequence', [checkpoint({ userId: '\u001b[2J' }), ref()]],
  ['a branch name with an escape sequence', [checkpoint(), ref(ID, { name: 'x\u001b[2J' })]],
  ['a tag name with a bell', [checkpoint(), ref(), ref(ID, { kind: 'tag', name: '\u0007' })]],
  ...[
    '{"a":',
    '{"$":["Map",5]}',
    '{"$":["RegExp","(",""]}',
    '{"$":["bigint","x"]}',
    '{"$":["URL","::"]}',
    '{"$":["bare",null]}',
    '{"$":["BigInt64Array","AAAA"]}',
    '{"$":["bigint","0x10"]}',
    '{"$":["Date",1e300]}',
    '{"$":["Uint8Array","!!!!"]}',
    '{"$":["Date",1],"a":2}',
    '{"a":1,"a":2}',
    '{"$":["Error","Function",{}]}',
    '{"$":["Error","Error+prototype",{}]}',
    '{"a": 1}',
    '{"$":["Map",[[1,2],[1,3]]]}',
    '{"$":["Set",[1,1]]}',
    '{"$":["fields",[["1",2],["1",3]]]}',
    '{"$":["Set",[0,{"$":["number","-0"]}]]}',
    '{"$":["tree","object",2,[[["x",2],["x",3]]]]}',
    '{"$":["class",5,1]}',
    `${'['.repeat(50_000)}${']'.repeat(50_000)}`,
    `${'['.repeat(200_000)}${']'.repeat(200_000)}`,
  ].map((text): [string, Line[]] => [`the state ${text.slice(0, 30)}`, [checkpoint({}, { text }), ref()]]),
  ['a state of 2^40 elements', bomb()],
  ['a row of 20,000 chunks', [...chain(20_000)]],
  ['one leaf that is used twice in a set', [...withLeaf('[1]', '{"$":["tree","Set",2,[[1,1],[]]]}')]],
  ['one pair that is used twice in a map', [...withLeaf('[[1,2]]', '{"$":["tree","Map",2,[[1,1],[]]]}')]],
  [
    'six bytes that are to be numbers of eight',
    [...withLeaf('"AAAA"', '{"$":["tree","Float64Array",2,[[{"$":0},{"$":0}]]]}')],
  ],
  ['pieces that are no base64', [...withLeaf('"A*"', '{"$":["tree","Uint8Array",2,[[{"$":0},{"$":0}]]]}')]],
  [
    'a result that cannot be read',
    [
      checkpoint(),
      effect({ status: 'done' }, '{"$":["Set",[0,{"$":["number","-0"]}]]}'),
      ref(),
      ref('1', { kind: 'log' }),
    ],
  ],
  ['a line with two records', [{ ...ref(), chunk: { text: 5 } }]],
  ['a line that is null', [null]],
  ['a line that is a number', [5]],
  ['an end that is null', [{ end: null }]],
  [
    'an effect without a log',
    [checkpoint(), ref(), { effect: { branch: 'main', ordinal: 0, body: '{', digest: digestText('') } }],
  ],
  ['a log without effects', [checkpoint(), ref(), ref('3', { kind: 'log' })]],
  ['a log of no effects', [checkpoint(), ref(), ref('0', { kind: 'log' })]],
  ['a count of effects that are not there', [checkpoint({ effectCount: 1 }), ref()]],
  [
    'a count of more effects than there are',
    [checkpoint({ effectCount: 2 }), effect(), ref(), ref('1', { kind: 'log' })],
  ],
  [
    'effects in flight that were not begun',
    [checkpoint({ effectCount: 1, effectsInFlight: [1] }), effect(), ref(), ref('1', { kind: 'log' })],
  ],
  ...[
    { inputDigest: 5 },
    { work: [] },
    { nth: '1' },
    { afterId: 'chk_1' },
    { durationMs: 'long' },
    { replayedFrom: 'main' },
    { attempt: 0.5 },
    { startedAtMs: null },
  ].map((changes): [string, Line[]] => [
    `an effect with ${JSON.stringify(changes)}`,
    [checkpoint(), effect(changes), ref(), ref('1', { kind: 'log' })],
  ]),
  ...[0, 2].map((sequence): [string, Line[]] => [`a root of sequence ${sequence}`, [checkpoint({ sequence }), ref()]]),
  ['a child of the sequence of its parent', [...withChild({ sequence: 1 }), ref(NEXT)]],
  ['a current branch that is not there', [checkpoint(), ref(), ref('other', { kind: 'current', name: 'branch' })]],
  ...[
    { name: 'n'.repeat(10_000) },
    { note: 'n'.repeat(300_000) },
    { metadata: { a: 'n'.repeat(2_000_000) } },
    { timestampMs: -1 },
    { timestampMs: 8e15 },
    { schemaVersion: -0.5 },
  ].map((changes): [string, Line[]] => [
    `a header with ${JSON.stringify(changes).slice(0, 30)}`,
    [checkpoint(changes), ref()],
  ]),
  ...['completed:x', `cleared:${NEXT}`, 'dropped:x'].map((name): [string, Line[]] => [
    `the mark ${name}`,
    [checkpoint(), ref(), ref(ID, { kind: 'mark', name })],
  ]),
  ['a pin of another name', [checkpoint(), ref(), ref(ID, { kind: 'pin', name: 'mine' })]],
  ...['done', 'failed'].map((status): [string, Line[]] => [
    `an effect that is ${status} without a result`,
    [checkpoint(), effect({ status }), ref(), ref('1', { kind: 'log' })],
  ]),
  ['the same branch twice', [checkpoint(), ref(), ref()]],
  ['the same tag twice', [...withChild(), ref(), ref(ID, { kind: 'tag' }), ref(NEXT, { kind: 'tag' })]],
  ...['@', '@~2', 'x^', 'message 3', 'a..b', NEXT, 'chk_01', 'ok\u202e'].flatMap((name): [string, Line[]][] => [
    [`the branch ${name}`, [checkpoint(), ref(ID, { name })]],
    [`the tag ${name}`, [checkpoint(), ref(), ref(ID, { kind: 'tag', name })]],
  ]),
  ['a tag of the name of a branch', [checkpoint(), ref(), ref(ID, { kind: 'tag' })]],
  ['a size of more than there is', [checkpoint({ stateBytes: 1e9 }), ref()]],
  ['a size of less than there is', [checkpoint({}, { text: `"${'x'.repeat(1e5)}"` }), ref()]],
  ['no names at all', [checkpoint()]],
  ...[
    '{"a":1}',
    '{"members":5,"inFlight":[]}',
    '{"members":[{"name":"a"}],"inFlight":[]}',
    '{"members":[],"inFlight":[5]}',
    '[]',
  ].map((text): [string, Line[]] => [
    `a group checkpoint with the state ${text}`,
    [checkpoint({ type: 'group' }, { text }), ref()],
  ]),
  ...['chk_zzzzzzzzzyzzzzzzzzzzzz', 'chk_zzzzzzzzzzzzzzzzzzzzzz', 'chk_02zzzzzzzzzzzzzzzzzzzz'].map(
    (id): [string, Line[]] => [`the id ${id} of the far future`, [checkpoint({ id }), ref(id)]],
  ),
];

/** A state in which a chunk is used twice. */
function* withLeaf(leaf: string, text: string): Generator<Line> {
  const { digest, refs } = createChunk({ text: leaf, refs: [] });
  yield { chunk: { text: leaf, refs } };
  yield checkpoint({}, { text, refs: [digest, digest] });
  yield ref();
}

/** An effect whose body is this, sealed by its digest. */
function effect(changes: object = {}, text?: string): Line {
  const result = text === undefined ? undefined : { text, refs: [] };
  const body = { ordinal: 0, name: 'call', status: 'started', attempt: 1, idempotencyKey: 'k', startedAtMs: 1 };
  const row = formatEffect(
    { sessionId: 's' as SessionId, branch: 'main' },
    { ...body, ...changes } as EffectRecord,
    result,
  );
  return { effect: { branch: 'main', ordinal: 0, body: row.body, digest: row.digest, ...(result && { result }) } };
}

function withChild(changes: object = {}): Line[] {
  const parent = checkpoint() as { checkpoint: { digest: Digest } };
  const { digest: parentDigest } = parent.checkpoint;
  return [parent, checkpoint({ id: NEXT, parentId: ID, parentDigest, sequence: 2, ...changes })];
}

function* chain(length: number): Generator<Line> {
  let last = createChunk({ text: '[]', refs: [] });
  yield { chunk: { text: last.text, refs: last.refs } };
  for (let at = 0; at < length; at++) {
    last = createChunk({ text: '[{"$":0}]', refs: [last.digest] });
    yield { chunk: { text: last.text, refs: last.refs } };
  }
  yield checkpoint({}, { text: '[{"$":0}]', refs: [last.digest] });
  yield ref();
}

async function collect(lines: AsyncIterable<string>): Promise<string[]> {
  const collected: string[] = [];
  for await (const line of lines) collected.push(line);
  return collected;
}

async function* toStream(...parts: readonly (string | Uint8Array)[]): AsyncGenerator<string | Uint8Array> {
  yield* parts;
}

describe('[session.4] a file that was written to do harm is CORRUPT and brings nothing in', () => {
  test('a file of the same kind without harm is brought in', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    await manager.importSession(toStream(format([checkpoint(), ref()])));
    expect(await manager.load(ID)).toEqual({ a: 1 });
    expect(await manager.verify()).toMatchObject({ status: 'clean' });
  });

  test.each(FORGED)('%s', async (_, lines, start = START) => {
    const storage = new InMemoryCheckpointStorage();
    const manager = new CheckpointManager({ storage });
    const importing = manager.importSession(toStream(format(lines, start)));
    await expect(importing).rejects.toMatchObject({ code: 'CORRUPT' });
    expect(await storage.stats()).toMatchObject({ checkpoints: 0, tombstones: 0, chunks: 0, sessions: 0 });
  });

  test('a file of a clock that is some hours ahead is brought in', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), now: () => NOW });
    const [id, timestampMs] = [idAt(NOW + 23 * HOUR), NOW + 23 * HOUR];
    await manager.importSession(toStream(format([checkpoint({ id, timestampMs }), ref(id)])));
    expect(await manager.latest()).toMatchObject({ sessionId: 's' });
  });

  test('the error names the line, and what was found there', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), now: () => NOW });
    const cases: [Line[], number, RegExp][] = [
      [[checkpoint({ effectCount: 3 }), ref()], 2, /counts 3 effects of "main", and 0 are/],
      [[checkpoint(), ref(), ref('gone', { kind: 'current', name: 'branch' })], 4, /current "branch" points at "gone"/],
      [[checkpoint(), ref(), ref()], 4, /branch "main" again, as line 3 does/],
      [[checkpoint(), effect({ nth: 'x' }), ref(), ref('1', { kind: 'log' })], 3, /its nth is "x"/],
      [[checkpoint({ shell: 1 }), ref()], 2, /a field "shell", which no export has/],
      [[checkpoint({ sequence: 7 }), ref()], 2, /sequence 7, and 1 is its place/],
      [[checkpoint({ type: 'group' }), ref()], 2, /at \$\.members/],
      [[checkpoint({ id: 'chk_zzzzzzzzzyzzzzzzzzzzzz' }), ref()], 2, /more than a day in the future/],
      [[checkpoint({ id: idAt(NOW + 25 * HOUR) }), ref()], 2, /day in the future/],
      [[checkpoint({ timestampMs: NOW + 25 * HOUR }), ref()], 2, /day in the future/],
    ];
    for (const [lines, line, message] of cases) {
      const importing = manager.importSession(toStream(format(lines)));
      await expect(importing).rejects.toMatchObject({
        code: 'CORRUPT',
        details: { line },
        message: expect.stringMatching(message),
      });
    }
    const importing = manager.importSession(toStream(format([checkpoint({}, { text: '{"$":["Map",5]}' }), ref()])));
    await expect(importing).rejects.not.toThrow(/verify/);
  });

  test('of a format version that is the right one, but a text, names it as what it is', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const importing = manager.importSession(toStream(format([], { ...START, version: '1' })));
    await expect(importing).rejects.toThrow('format version "1"; this program reads version 1');
  });

  test.each([
    ['a first line that is null', 'null\n', 'CORRUPT'],
    ['a first line that is no JSON', '{x\n', 'CORRUPT'],
    ['a byte order mark', `\ufeff${format([checkpoint(), ref()])}`, 'CORRUPT'],
    ['a byte order mark in bytes', Buffer.from(`\ufeff${format([checkpoint(), ref()])}`), 'CORRUPT'],
    ['a first line of another format', '{"format":"x"}\n', 'INVALID_INPUT'],
    ['nothing', '', 'INVALID_INPUT'],
    ['bytes that are no text', new Uint8Array([0xff, 0xfe, 10]), 'CORRUPT'],
    ['parts that are no text', 5 as never, 'INVALID_INPUT'],
    ['a session id with a line feed', `${JSON.stringify({ ...START, sessionId: 'a\nb' })}\n`, 'INVALID_INPUT'],
    ['a sealed session id', `${JSON.stringify({ ...START, sessionId: 'sealed.0123abcd.Zm9v' })}\n`, 'INVALID_INPUT'],
    ['a newer version', `${JSON.stringify({ ...START, version: 2 })}\n`, 'UNSUPPORTED'],
  ])('%s', async (_, text, code) => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    await expect(manager.importSession(toStream(text))).rejects.toMatchObject({ code });
    await expect(manager.importSession(undefined as never)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  test('a line without end is refused as soon as it is too long', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const part = Buffer.alloc(1024 * 1024, 'x');
    let read = 0;
    const endless = (async function* () {
      for (;;) {
        read++;
        yield part;
      }
    })();
    await expect(manager.importSession(endless)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    expect(read).toBeLessThan(100);
  });
});

test('[session.4] what was pruned, dropped and left current without a head is exported and imported again', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await manager.session('s');
  const ids = [];
  for (let i = 0; i < 5; i++) ids.push(await session.save({ i, done: await session.step('call', () => i) }));
  const { branch } = await manager.fork(ids[2] ?? '');
  await manager.switchBranch('s', branch);
  const fork = await manager.session('s');
  await fork.save({ forked: true }, { userId: 'u' });
  for (const id of ids.slice(0, 3)) await manager.delete(id);
  await manager.clearUserHistory('u');
  expect(await manager.branches('s')).toHaveLength(1);
  const lines = await collect(manager.exportSession('s'));
  const other = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  await other.importSession(toStream(...lines));
  expect(await collect(other.exportSession('s'))).toEqual(lines);
  expect(await other.verify()).toMatchObject({ status: 'clean' });
});

describeOn(STORAGES)('[session.4] an import on %s', (_, create) => {
  async function exported(): Promise<string[]> {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const session = await manager.session('s');
    for (let i = 0; i < 5; i++) await session.save({ imported: i });
    await session.step('call', () => 'imported');
    await manager.delete((await manager.list({}, { order: 'oldest' })).checkpoints[1]?.id ?? '');
    return collect(manager.exportSession('s'));
  }

  test('beside a writer loses and moves nothing that was acknowledged', async () => {
    const lines = await exported();
    for (const isCut of [true, false]) {
      const { storage, reopen } = create();
      const importer = new CheckpointManager({ storage });
      const worker = new CheckpointManager({ storage: reopen?.() ?? storage });
      const source = async function* () {
        yield* lines.slice(0, 3);
        const session = await worker.session('s');
        await session.step('call', () => 'mine');
        await session.save({ paid: true });
        yield* isCut ? lines.slice(3, -1) : lines.slice(3);
      };
      const code = isCut ? 'CORRUPT' : 'CONFLICT';
      await expect(importer.importSession(source())).rejects.toMatchObject({ code });
      const again = await worker.session('s', { replayFrom: 'start' });
      expect(again.state).toEqual({ paid: true });
      expect(await again.step('call', () => 'again')).toBe('mine');
      expect(await worker.verify()).toMatchObject({ status: 'clean', checkpoints: 1, tombstones: 0 });
      await Promise.all([importer.close(), worker.close()]);
    }
  });

  test('beside others of the same file is one import', async () => {
    const lines = await exported();
    const { storage, reopen } = create();
    const managers = [storage, reopen?.() ?? storage, reopen?.() ?? storage].map(
      (each) => new CheckpointManager({ storage: each }),
    );
    const outcomes = await Promise.allSettled(managers.map((manager) => manager.importSession(toStream(...lines))));
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'CONFLICT' });
    const [manager] = managers as [CheckpointManager];
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 4, tombstones: 1, effects: 1 });
    expect(await collect(manager.exportSession('s'))).toEqual(lines);
    await Promise.all(managers.map((each) => each.close()));
  });

  test('removes what one that was killed left, and nothing while that may be alive', async () => {
    const lines = await exported();
    const { storage } = create();
    const sessionId = 's' as SessionId;
    const { checkpoint: first } = JSON.parse(lines.find((line) => line.startsWith('{"checkpoint"')) ?? '') as {
      checkpoint: { body: string; digest: Digest; root: Chunk };
    };
    const header = JSON.parse(first.body);
    const claim = { kind: 'import', name: 'import', target: `${ID}.${Date.now()}` } as const;
    await storage.commit({ sessionId, checkpoint: { ...first, header }, refs: [claim] });
    let waits = 0;
    const setTimer = (run: () => void) => {
      waits++;
      // It is alive at first: then its claim moves on.
      const beat =
        waits === 5
          ? storage.commit({ sessionId, refs: [{ ...claim, target: `${ID}.${Date.now() + 1}` }] })
          : undefined;
      void Promise.resolve(beat).then(() => setImmediate(run));
      return () => undefined;
    };
    const manager = new CheckpointManager({ storage, setTimer });
    await manager.importSession(toStream(...lines));
    expect(waits).toBeGreaterThan(40);
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 4 });
    await manager.close();
  });

  test('whose session is begun while its checkpoints are stored takes back its own, and nothing else', async () => {
    const lines = await exported();
    const { storage, reopen } = create();
    const worker = new CheckpointManager({ storage: reopen?.() ?? storage });
    const session = await worker.session('s');
    const { commit } = storage;
    let commits = 0;
    storage.commit = async (each) => {
      if (++commits === 4) await session.save({ paid: true });
      return commit.call(storage, each);
    };
    const importer = new CheckpointManager({ storage });
    await expect(importer.importSession(toStream(...lines))).rejects.toMatchObject({ code: 'CONFLICT' });
    expect((await worker.session('s')).state).toEqual({ paid: true });
    expect((await worker.list({ sessionId: 's' })).checkpoints).toHaveLength(1);
    expect(await storage.readRefs({ sessionId: 's', kind: 'import' })).toEqual([]);
    expect(await worker.verify()).toMatchObject({ status: 'clean' });
    await Promise.all([importer.close(), worker.close()]);
  });

  test('of a session whose checkpoints are elsewhere in the storage leaves those alone', async () => {
    const lines = await exported();
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    await manager.importSession(toStream(...lines));
    const [head] = (await manager.list({ sessionId: 's' })).checkpoints;
    const again = format([checkpoint({ id: head?.id as CheckpointId, sessionId: 'other' }), ref(head?.id)], {
      ...START,
      sessionId: 'other',
    });
    await expect(manager.importSession(toStream(again))).rejects.toMatchObject({ code: 'CONFLICT' });
    expect(await manager.verify()).toMatchObject({ status: 'clean', checkpoints: 4, sessions: 1 });
    await manager.close();
  });
});

describeOn(STORAGES)('[session.5] on %s', (kind, create) => {
  /** PostgreSQL takes numbers only for its index. */
  const INDEXED = kind === 'postgres' ? { timestampMs: 1 } : {};
  const HARMFUL = [{ timestampMs: 'x' }, { metadata: { a: { $: ['class', 'X', 1] } } }, { sequence: -5 }];

  test.each(HARMFUL)('a header with %j in the storage is damage, and the rest stays usable', async (changes) => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const good = await (await manager.session('good')).save({ a: 1 });
    const { checkpoint: record } = checkpoint(changes) as unknown as {
      checkpoint: { body: string; digest: Digest; root: Chunk };
    };
    const refs = [{ kind: 'branch', name: 'main', target: ID }] as const;
    await storage.commit({
      sessionId: 's' as SessionId,
      checkpoint: { ...record, header: { ...JSON.parse(record.body), ...INDEXED } },
      refs,
    });
    expect((await manager.list({})).checkpoints.map(({ id }) => id)).toEqual([good]);
    expect((await manager.list({}, { limit: 1, order: 'oldest' })).checkpoints.map(({ id }) => id)).toEqual([good]);
    expect((await manager.latest({}))?.id).toBe(good);
    await manager.prune({ policy: { maxCheckpoints: 1 } });
    await expect(manager.load(ID)).rejects.toMatchObject({ code: 'CORRUPT' });
    const { status, damagedCheckpoints } = await manager.verify();
    expect({ status, damagedCheckpoints }).toEqual({ status: 'damaged', damagedCheckpoints: [ID] });
    await manager.close();
  });

  test.each([
    '{"a":{"$":["Map",5]}}',
    '{"a":{"$":["Set",[0,{"$":["number","-0"]}]]}}',
    '{"a":{"$":["tree","Map",2,[[[1,2],[1,3]]]]}}',
  ])('the state %s, which cannot be read, is named by verify', async (text) => {
    const { storage } = create();
    const manager = new CheckpointManager({ storage });
    const { checkpoint: record } = checkpoint({}, { text }) as unknown as {
      checkpoint: { body: string; digest: Digest; root: Chunk };
    };
    const refs = [{ kind: 'branch', name: 'main', target: ID }] as const;
    await storage.commit({
      sessionId: 's' as SessionId,
      checkpoint: { ...record, header: { ...JSON.parse(record.body), ...INDEXED } },
      refs,
    });
    await expect(manager.load(ID)).rejects.toMatchObject({ code: 'CORRUPT', details: { path: '$.a' } });
    expect(await manager.verify()).toMatchObject({ status: 'damaged', damagedCheckpoints: [ID] });
    await manager.close();
  });
});
