import { expect, test } from 'vitest';
import { processorMs } from '../../../test/support/clock.ts';
import { parseSessionId } from '../../core/record/id.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { resolveRevision } from './resolve-revision.ts';

const call = (name: string) => ({ role: 'assistant', content: [{ type: 'tool-call', toolName: name }] });
const MESSAGES: unknown[] = [
  { role: 'user', content: 'Where is my order?' },
  call('search'),
  { role: 'tool', content: 'It left on Monday.' },
  { role: 'assistant', tool_calls: [{ function: { name: 'refund' } }] },
];

/** A session with a checkpoint before the first message, and one after each; the last one is saved twice. */
async function transcript() {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await manager.session('s');
  const ids: string[] = [];
  for (let count = 0; count <= MESSAGES.length; count++)
    ids.push(await session.save({ messages: MESSAGES.slice(0, count) }, { metadata: { round: Math.ceil(count / 2) } }));
  const again = await session.save({ messages: MESSAGES, isDone: true }, { metadata: { round: 2 } });
  const place = { sessionId: parseSessionId('s'), head: () => again };
  return { manager, ids, again, find: (text: string) => resolveRevision(manager.engine, place, text) };
}

test('[cli.4] a message, a round or a tool call names the checkpoint after or before it', async () => {
  const { ids, again, find } = await transcript();
  const wanted: [string, string | undefined][] = [
    ['message 1', ids[1]],
    ['message 4', ids[4]],
    ['message 0', ids[0]],
    ['round 1', ids[2]],
    ['round 2', again],
    ['before tool', ids[3]],
    ['before tool search', ids[1]],
    ['message 4~1', ids[3]],
    ['@~3 before tool search', ids[1]],
    ['main message 2', ids[2]],
  ];
  for (const [text, id] of wanted) expect([text, (await find(text)).id]).toEqual([text, id]);
});

test('[cli.4] what was not said is not found, and the error says what there is', async () => {
  const { find } = await transcript();
  await expect(find('message 9')).rejects.toThrow('right after message 9; there are some after message 3 and 4.');
  await expect(find('round 9')).rejects.toThrow('no end of round 9');
  await expect(find('before tool fax')).rejects.toThrow('calls the tool "fax"');
  await expect(find('message x')).rejects.toThrow('A revision is an id or its beginning');
});

test('[cli.4] a new branch or tag must not have a name that reads as a revision', async () => {
  const { manager, again } = await transcript();
  for (const name of ['@', '@~2', 'main~2', '#1', 'x^', '@{2h ago}', 'message 3', 'before tool search']) {
    await expect(manager.tag(again, name)).rejects.toThrow(`A tag must not read as a revision, as "${name}" does.`);
    await expect(manager.fork(again, { branch: name })).rejects.toThrow('A branch name must not read as a revision');
  }
  for (const name of ['a..b', 'ok\u202e', again, 'chk_01']) {
    await expect(manager.tag(again, name)).rejects.toMatchObject({ code: 'INVALID_INPUT', details: { name } });
    await expect(manager.fork(again, { branch: name })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expect(manager.session('new', { branch: name })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  }
  await manager.tag(again, 'v1.2 (final)');
});

test('[cli.4] a branch takes no name of a tag, and a tag none of a branch', async () => {
  const { manager, again } = await transcript();
  const { sessionId } = await manager.open(again);
  await manager.tag(again, 'v1');
  await manager.fork(again, { branch: 'side' });
  const taken = { code: 'CONFLICT', message: expect.stringContaining('"v1" exists already') };
  await expect(manager.fork(again, { branch: 'v1' })).rejects.toMatchObject(taken);
  await expect(manager.rewind(again, { branch: 'v1' })).rejects.toMatchObject(taken);
  await expect(manager.fork(again, { branch: 'v1', edit: () => ({}) })).rejects.toMatchObject(taken);
  await expect(manager.tag(again, 'side')).rejects.toMatchObject({ code: 'CONFLICT' });
  expect(await manager.branches(sessionId)).toHaveLength(2);
  const { sequence } = await manager.open(again);
  await manager.tag(again, `fork-${sequence}`);
  expect(await manager.fork(again)).toMatchObject({ branch: `fork-${sequence}-2` });
});

test('a long text that names nothing is refused in no time', async () => {
  const session = await new CheckpointManager({ storage: new InMemoryCheckpointStorage() }).session('s');
  await session.save({ n: 1 });
  const startMs = processorMs();
  for (const text of ['{"a":'.repeat(100_000), '{~'.repeat(100_000)])
    await expect(session.find(text)).rejects.toMatchObject({ code: expect.stringMatching(/INVALID_INPUT|NOT_FOUND/) });
  expect(processorMs() - startMs).toBeLessThan(2_000);
});
