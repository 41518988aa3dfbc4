import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../test/support/storages.ts';
import { Memory } from './index.ts';

const userId = 'ann';

test('[input.1] what a call does not understand is refused in words, and nothing is recorded', async () => {
  const memory = new Memory({ path: join(temporaryFolder(), 'history.db') });
  const call = memory as unknown as Record<string, (...given: unknown[]) => Promise<unknown>>;
  const refused = async (verb: string, ...given: unknown[]) => {
    const error = await call[verb]?.(...given).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({ code: expect.stringMatching(/INVALID_INPUT|NOT_FOUND/) });
    return (error as Error).message;
  };
  for (const verb of ['search', 'add', 'getAll', 'deleteAll'])
    expect(await refused(verb, ...(verb === 'search' || verb === 'add' ? ['x'] : []))).toMatch(/Whose memory is it/);
  expect(await refused('render', '{memory}')).toMatch(/scope: \{ userId \}/);
  expect(await refused('search', 'x', { userId, topk: 3 })).toMatch(
    '"topk" is not an option of search(); did you mean "topK"?',
  );
  expect(await refused('search', 5, { userId })).toMatch('must be a string; found 5');
  expect(await refused('search', 'x', { userId, topK: 0 })).toMatch('from 1 to 1000; found 0');
  expect(await refused('search', 'x', { userId, asOf: new Date('?') })).toMatch('a valid Date');
  expect(await refused('add', 'x', { userId, kind: 'rumour' })).toMatch('"episode"');
  expect(await refused('add', { role: 'robot', content: 'x' }, { userId })).toMatch('found "robot"');
  for (const timestamp of ['2020-01-01', new Date('?')])
    expect(await refused('add', { role: 'user', content: 'tea time', timestamp }, { userId })).toMatch('a valid Date');
  await memory.add('Nobody may see this.', { userId: 'bob' });
  for (const verb of ['get', 'history', 'why', 'delete', 'promote', 'update'])
    expect(await refused(verb, undefined, ...(verb === 'update' ? ['mine'] : []))).toMatch(`The id of ${verb}() must`);
  const [round, itself]: [Record<string, unknown>, Record<string, unknown>] = [{}, {}];
  round.AND = [round];
  itself.self = itself;
  expect(await refused('search', 'x', { userId, filters: round })).toMatch('nested deeper than 100 levels');
  for (const filters of [{ AND: itself }, { tag: { eq: itself } }, { tag: { in: [itself] } }, { tag: [itself] }])
    expect(await refused('search', 'x', { userId, filters })).toMatch('not JSON');
  expect(() => new Memory({ paht: 'x' } as object)).toThrow('did you mean "path"?');
  await memory.add('I prefer window seats.', { userId });
  const [seat] = await memory.getAll({ userId });
  const id = seat?.id ?? '';
  expect(await refused('update', id, { content: 'aisle' })).toMatch('"memory"');
  expect(await refused('update', id, {})).toMatch('Nothing would change');
  expect(await refused('history', 'mem_nobody')).toMatch('mem_nobody was not found');
  expect(await refused('why', 'mem_nobody')).toMatch('mem_nobody was not found');
  expect((await memory.history(id)).map(({ action }) => action)).toEqual(['ADD']);
  await memory.close();
});
