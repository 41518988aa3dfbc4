import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { json, ok, run } from './support/cli.ts';
import { CHAT, DATABASE, sharedChat } from './support/fixture.ts';

const chat = sharedChat();

describe.concurrent('fork', () => {
  test('[cli.10] begins a branch, with values set, a reason and an author; the original stays', async () => {
    const { folder, ids } = await chat.copy();
    const plain = await json('fork', ['@~3', '-b', 'plain'], { folder });
    expect(plain).toEqual({ sessionId: CHAT, branch: 'plain', name: 'plain', headId: ids[5] });
    const args = [
      'v1',
      '--set',
      'tone=kind',
      '--set',
      'plan[0]={"do":1}',
      '--set',
      'extra=[true]',
      '--reason',
      'kinder',
    ];
    const edited = await json('fork', args, { folder });
    expect(edited.branch).toBe('fork-4');
    const shown = await json('show', ['fork-4'], { folder });
    expect(shown).toMatchObject({
      checkpoint: { parentId: ids[4], author: 'ann', reason: 'kinder', trigger: 'edited' },
      state: { tone: 'kind', plan: [{ do: 1 }, 'help'], extra: [true] },
    });
    const slips = await run(['fork', 'v1', '--set', 'tne=kind', '--set', 'tone=[1]', '--set', 'plan[1]=x'], { folder });
    expect(slips.stderr).toMatch(
      /^\$\.tne is new: the state had no such key\.\n\$\.tone was a string, and is a list now\.\nSee/,
    );
    expect(await json('show', ['v1:tone'], { folder })).toMatchObject({ value: 'dry and to the point, mostly' });
    expect((await run(['fork', '-b', 'plain'], { folder })).code).toBe(14);
    for (const odd of ['a; touch $(id)', '#a', '~root'])
      expect((await run(['fork', '-b', odd], { folder })).stderr).toContain(`savestate switch '${odd}'`);
  });

  test('[restore.5] an edited state keeps its version, so that its program does not migrate it again', async () => {
    const { folder } = await chat.copy();
    const migrations = [{ from: 0, migrate: ({ cents }: { cents: number }) => ({ cents: cents * 100 }) }];
    const storage = () => new SqliteCheckpointStorage({ path: join(folder, DATABASE) });
    const before = new CheckpointManager({ storage: storage(), schemaVersion: 1, migrations });
    await before.save({ cents: 500 }, { sessionId: 'price' });
    await before.close();
    await ok(['fork', '--session', 'price', '--set', 'cents=700', '-b', 'edited'], { folder });
    const after = new CheckpointManager({ storage: storage(), schemaVersion: 1, migrations });
    expect((await after.session('price', { branch: 'edited' })).state).toEqual({ cents: 700 });
    await after.close();
  });

  test('[session.2] says which copies of an edited message were edited, too', async () => {
    const { folder } = await chat.copy();
    const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(folder, DATABASE) }) });
    const said = () => [{ name: 'ann', content: 'Yes.' }];
    const state = { kind: 'group_chat', chat: { settings: { managerName: 'c' }, messages: said() } };
    await manager.save({ ...state, agents: { bob: { histories: { c: said() } } } }, { sessionId: 'team' });
    await manager.close();
    const args = ['fork', '--session', 'team', '--set', 'chat.messages[0].content=No.'];
    expect(await ok(args, { folder })).toContain("the agents' own copies: $.agents.bob.histories.c[0].");
  });

  test('[cli.10] what cannot be noted for undo is done all the same, and says so', async () => {
    const { folder } = await chat.copy();
    writeFileSync(join(folder, 'file'), '');
    const { code, stdout, stderr } = await run(['tag', 'kept'], {
      folder,
      env: { XDG_STATE_HOME: join(folder, 'file') },
    });
    expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining('is tagged "kept"') });
    expect(stderr).toContain('It was done, and "savestate undo" cannot take it back');
  });

  test('[cli.10] takes a JSON Patch from a file or a pipe, and refuses what is none', async () => {
    const { folder } = await chat.copy();
    const patch = [{ op: 'replace', path: '/tone', value: 'short' }];
    writeFileSync(join(folder, 'patch.json'), JSON.stringify(patch));
    await ok(['fork', '--patch', 'patch.json', '-b', 'a'], { folder });
    await ok(['fork', '--patch', '-', '-b', 'b'], { folder, input: JSON.stringify(patch) });
    for (const branch of ['a', 'b'])
      expect(await json('show', [`${branch}:tone`], { folder })).toMatchObject({ value: 'short' });
    writeFileSync(join(folder, 'wrong.json'), '{"op":"replace"}');
    for (const args of [
      ['--patch', 'wrong.json'],
      ['--patch', 'missing.json'],
      ['--set', 'novalue'],
      ['--set', 'a.b.c=1'],
      ['--set', 'tone=1', '--patch', '-'],
    ])
      expect([args, (await run(['fork', ...args], { folder })).code]).toEqual([
        args,
        ['a.b.c=1', 'missing.json'].includes(args[1] ?? '') ? 13 : 2,
      ]);
    expect(await json('branch', [], { folder })).toHaveLength(4);
  });

  test('[cli.10] --edit opens the editor on the state, and forks what was written there', async () => {
    const { folder, ids } = await chat.copy();
    writeFileSync(
      join(folder, 'editor.sh'),
      '#!/bin/sh\nsed -i "s/dry and to the point, mostly/edited by hand/" "$1"\n',
      { mode: 0o755 },
    );
    const env = { EDITOR: join(folder, 'editor.sh') };
    await json('fork', ['--edit', '-b', 'by-hand'], { folder, env });
    expect(await json('diff', [ids[8] ?? '', 'by-hand'], { folder })).toMatchObject({
      counts: { total: { added: 0, removed: 0, modified: 1, moved: 0 } },
      modified: [{ path: '$.tone', newValue: 'edited by hand' }],
    });
    expect(await run(['fork', '--edit'], { folder, env: { EDITOR: 'true' } })).toMatchObject({ code: 2 }); // nothing changed
    expect(await run(['fork', '--edit'], { folder, env: { EDITOR: 'false' } })).toMatchObject({ code: 2 });
    expect(await run(['fork', '--edit'], { folder })).toMatchObject({ code: 2 });
  });
});

describe.concurrent('rewind', () => {
  test('[cli.10] goes back in a new branch that is current; nothing is lost', async () => {
    const { folder, ids } = await chat.copy();
    const head = await json('rewind', ['@~3', '-b', 'again'], { folder });
    expect(head).toEqual({ sessionId: CHAT, branch: 'again', name: 'again', headId: ids[5] });
    expect((await json('log', [], { folder })).map(({ id }) => id)).toEqual(ids.slice(1, 6).reverse());
    expect(await json('log', ['main'], { folder })).toHaveLength(8);
    const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(folder, DATABASE) }) });
    expect((await manager.session(CHAT)).branch).toBe('again');
    await manager.close();
    expect((await run(['rewind', 'main'], { folder })).code).toBe(2); // no ancestor of where it is now
  });
});

describe.concurrent('branches and tags', () => {
  test('[cli.11] branches are listed, made, switched to and deleted', async () => {
    const { folder, ids, forkId } = await chat.copy();
    expect(await json('branch', ['try', '@~2'], { folder })).toEqual({
      sessionId: CHAT,
      branch: 'try',
      name: 'try',
      headId: ids[6],
    });
    expect(await json('switch', ['try'], { folder })).toEqual({ sessionId: CHAT, branch: 'try' });
    expect(await json('branch', [], { folder })).toEqual([
      { branch: 'main', name: 'main', headId: ids[8], isCurrent: false },
      { branch: 'try', name: 'try', headId: ids[6], isCurrent: true },
      { branch: 'what-if', name: 'what-if', headId: forkId, isCurrent: false },
    ]);
    expect((await run(['branch', '-d', 'try'], { folder })).code).toBe(2); // the current one
    expect(await json('branch', ['-d', 'what-if'], { folder })).toEqual({
      sessionId: CHAT,
      deleted: 'what-if',
      headId: forkId,
    });
    expect((await run(['switch', 'what-if'], { folder })).code).toBe(13);
    expect((await run(['branch', '-d', 'nothing'], { folder })).code).toBe(13);
    expect(await ok(['branch', '-s', 'other'], { folder })).toMatch(/^\*\tmain\tchk_/);
  });

  test('[cli.11] tags are listed, set and deleted, and do not move', async () => {
    const { folder, ids } = await chat.copy();
    expect(await json('tag', ['now'], { folder })).toEqual({ name: 'now', checkpointId: ids[8] });
    expect((await run(['tag', 'now', '@~1'], { folder })).code).toBe(14);
    expect(await json('tag', [], { folder })).toEqual([
      { name: 'now', checkpointId: ids[8] },
      { name: 'v1', checkpointId: ids[4] },
    ]);
    expect(await json('tag', ['-d', 'v1'], { folder })).toEqual({ deleted: 'v1', checkpointId: ids[4] });
    expect((await run(['tag', '-d', 'v1'], { folder })).code).toBe(13);
  });
});

describe.concurrent('undo', () => {
  test('[cli.11] takes back what was done to branches and tags, one after the other', async () => {
    const { folder } = await chat.copy();
    const names = async () => [await ok(['branch'], { folder }), await ok(['tag'], { folder })];
    const before = await names();
    for (const line of [
      'fork -b a --switch',
      'tag t',
      'branch b',
      'branch -d what-if',
      'tag -d v1',
      'rewind @~1',
      'switch main',
    ])
      await ok(line.split(' '), { folder });
    expect(await json('undo', ['--list'], { folder })).toHaveLength(7);
    for (let count = 0; count < 7; count++)
      expect(await json('undo', [], { folder })).toMatchObject({ isUndone: true });
    expect(await names()).toEqual(before);
    expect((await json('undo', ['--list'], { folder })) as { isUndone: boolean }[]).toEqual(
      Array.from({ length: 7 }, () => expect.objectContaining({ isUndone: true })),
    );
    expect((await run(['undo'], { folder })).code).toBe(13);
  });

  test('[cli.11] a deleted branch comes back with the steps it recorded', async () => {
    const { folder } = await chat.copy();
    const steps = await ok(['log', '--steps'], { folder });
    await ok(['switch', 'what-if'], { folder });
    await ok(['branch', '-d', 'main'], { folder });
    for (let count = 0; count < 2; count++) await ok(['undo'], { folder });
    expect(await ok(['log', '--steps'], { folder })).toBe(steps);
    expect(await ok(['log', '-n', '1', '--oneline'], { folder })).toContain('(main)');
  });

  test('[cli.11] refuses if a name was changed since, and undoes a certain one if asked', async () => {
    const { folder, ids } = await chat.copy();
    await ok(['branch', 'mine'], { folder });
    await ok(['tag', 'kept'], { folder });
    const [, made] = (await json('undo', ['--list'], { folder })) as { id: string }[];
    const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(folder, DATABASE) }) });
    await (await manager.session(CHAT, { branch: 'mine' })).save({ went: 'on' });
    await manager.close();
    const refused = await run(['undo', made?.id ?? ''], { folder });
    expect(refused.code).toBe(14);
    expect(refused.stderr).toContain('branch "mine" was changed');
    await ok(['undo'], { folder });
    expect(await json('tag', [], { folder })).toEqual([{ name: 'v1', checkpointId: ids[4] }]);
    expect((await run(['undo', 'nothing'], { folder })).code).toBe(13);
  });

  test('[cli.11] a line of its journal that a crash cut off does no harm', async () => {
    const { folder } = await chat.copy();
    await ok(['tag', 'one'], { folder });
    const own = join(folder, '.state', 'savestate');
    const journal = join(own, readdirSync(own)[0] ?? '', 'operations.jsonl');
    writeFileSync(journal, `${readFileSync(journal, 'utf8')}{"id":"half`);
    expect(await json('undo', [], { folder })).toMatchObject({ isUndone: true });
  });
});
