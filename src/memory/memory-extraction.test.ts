import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../test/support/storages.ts';
import { CheckpointManager, InMemoryCheckpointStorage } from '../index.ts';
import { type ExtractionRequest, Memory, type MemoryExtractor } from './index.ts';
import { extractByRules } from './log/extract-by-rules.ts';
import { stripMemoryBlocks } from './log/memory-block.ts';

const userId = 'ann';

function open(
  extract: (request: ExtractionRequest) => unknown,
  manager?: CheckpointManager,
): { memory: Memory; asked: ExtractionRequest[] } {
  const folder = temporaryFolder();
  const asked: ExtractionRequest[] = [];
  const extractor = {
    id: 'model-1',
    extract: async (request: ExtractionRequest) => {
      asked.push(request);
      return extract(request);
    },
  } as MemoryExtractor;
  const memory = new Memory({ path: join(folder, 'history.db'), extractor, ...(manager && { manager }) });
  onTestFinished(() => memory.close());
  return { memory, asked };
}

const turns = [
  { role: 'user', content: 'We fly to Rome in May' },
  { role: 'assistant', content: 'I booked the flight' },
];

describe('an extractor', () => {
  test('[memory.12] that never answers holds nothing up: its time ends, or the signal of add', async () => {
    const signals: AbortSignal[] = [];
    const extract = ({ signal }: ExtractionRequest) => {
      signals.push(signal);
      return new Promise<never>(() => undefined);
    };
    const stuck = new Memory({
      path: join(temporaryFolder(), 'history.db'),
      extractor: { id: 'stuck', timeoutMs: 1, extract },
    });
    onTestFinished(() => stuck.close());
    const { extraction, results } = await stuck.add(turns, { userId });
    expect(extraction).toEqual({ problem: 'The extractor "stuck" did not answer within 1 ms.' });
    expect(results).toHaveLength(2);
    const stop = new AbortController();
    const { memory } = open((request) => {
      stop.abort(new Error('enough'));
      return extract(request);
    });
    await expect(memory.add(turns, { userId, signal: stop.signal })).rejects.toThrow('enough');
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
    expect(await memory.getAll({ userId })).toHaveLength(2);
  });

  test('[memory.12] is asked once about a source; its answer points at the turns and is as trusted as the least of them', async () => {
    const { memory, asked } = open(() => [
      { content: 'Flies to Rome in May', subject: 'ann', message: 0 },
      { content: 'The flight to Rome is booked', kind: 'outcome' },
    ]);
    const options = { userId, idempotencyKey: 'turn 1' };
    const first = await memory.add(turns, options);
    expect(first.extraction).toBe('done');
    expect(first.results.map(({ kind, event }) => [kind, event])).toEqual([
      ['episode', 'ADD'],
      ['episode', 'ADD'],
      ['fact', 'ADD'],
      ['outcome', 'ADD'],
    ]);
    const again = await memory.add(turns, options);
    expect([again.extraction, asked.length]).toEqual(['recorded', 1]);
    const all = await memory.getAll({ userId });
    expect(all).toHaveLength(4);
    const [fact, outcome] = all.filter(({ kind }) => kind !== 'episode');
    expect([fact?.trust, outcome?.trust]).toEqual(['user', 'agent']);
    expect((await memory.why(outcome?.id ?? '')).sources[0]?.turns.map((turn) => turn.memory)).toEqual(
      turns.map(({ content }) => content),
    );
  });

  test('[memory.2] is not asked again after a rewind, and what it had found is known on the new branch', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const { memory, asked } = open(() => [{ content: 'Flies to Rome in May', subject: 'ann' }], manager);
    const session = await manager.session('s');
    const start = await session.save({ n: 0 });
    const learn = async (checkpoint: string) => {
      const { results } = await memory.add(turns, { userId, checkpoint, idempotencyKey: 'turn 1' });
      return results.map(({ event }) => event);
    };
    expect(await learn(await session.save({ n: 1 }))).toEqual(['ADD', 'ADD', 'ADD']);
    await memory.rewind(start);
    const again = await (await manager.session('s')).save({ n: 1 });
    expect(await learn(again)).toEqual(['ADD', 'ADD', 'ADD']);
    expect(await learn(again)).toEqual(['NONE', 'NONE']);
    expect((await memory.getAll({ userId, kinds: ['fact'] })).map((fact) => fact.memory)).toEqual([
      'Flies to Rome in May',
    ]);
    expect(asked).toHaveLength(1);
    await manager.close();
  });

  test('[memory.12] is not asked again although it found nothing', async () => {
    const { memory, asked } = open(() => []);
    await memory.add(turns, { userId, idempotencyKey: 'k' });
    await memory.add(turns, { userId, idempotencyKey: 'k' });
    expect(asked).toHaveLength(1);
  });

  test('[memory.12] is shown what is known, and not asked when nothing is to be inferred', async () => {
    const { memory, asked } = open(() => []);
    await memory.add('Rome is where the office is', { userId, kind: 'fact' });
    await memory.add(turns, { userId, infer: false });
    expect(asked).toHaveLength(0);
    await memory.add('When in Rome, do as the Romans do', { userId });
    expect(asked[0]?.known.map((record) => record.memory)).toEqual(['Rome is where the office is']);
  });

  test.each([
    ['fails', () => Promise.reject(new Error('overloaded')), /overloaded/],
    ['answers nonsense', () => [{ content: '' }], /must answer a list/],
  ] as const)('[memory.12] that %s costs nothing but a flag, and is asked again', async (_, extract, problem) => {
    const { memory, asked } = open(extract);
    const { extraction } = await memory.add(turns, { userId, idempotencyKey: 'k' });
    expect(extraction).toEqual({ problem: expect.stringMatching(problem) });
    expect(await memory.getAll({ userId })).toHaveLength(2);
    await memory.add(turns, { userId, idempotencyKey: 'k' });
    expect(asked).toHaveLength(2);
  });
});

describe('rules', () => {
  test.each([
    ['My name is Ann.', 'fact', 'name'],
    ['I live in Rome now.', 'fact', 'home'],
    ["I've just joined Acme.", 'fact', 'employer'],
    ['I work as a nurse.', 'fact', 'role'],
    ['My favourite colour is green.', 'preference', 'favourite colour'],
    ['I really love hiking!', 'preference', undefined],
    ["I don't eat meat.", 'preference', undefined],
    ["I'm allergic to nuts.", 'preference', undefined],
    ['Remember that the door code is 1234.', 'instruction', undefined],
    ['Never call me before nine.', 'instruction', undefined],
    ['From now on answer in French.', 'instruction', undefined],
    ['Please answer in one sentence.', 'instruction', undefined],
    ["Let's go with PostgreSQL.", 'decision', undefined],
    ['We have decided to wait.', 'decision', undefined],
    ['Our server runs Linux.', 'fact', undefined],
    ["I'm Ann.", 'fact', 'name'],
    ['I am Zoë Okafor from Lagos.', 'fact', 'name'],
    ['I am vegetarian.', 'fact', undefined],
    ["I'm not gluten-free.", 'fact', undefined],
    ["I'm no longer married.", 'fact', undefined],
    ["I'm not vegetarian anymore.", 'fact', undefined],
    ['I am not diabetic any more.', 'fact', undefined],
    ['I am colour-blind.', 'fact', undefined],
    ["I'm a nurse.", 'fact', undefined],
    ["I'm Portuguese.", 'fact', undefined],
    ['I am from Lagos.', 'fact', undefined],
    ["Don't use emojis.", 'instruction', undefined],
    ['Do not round numbers.', 'instruction', undefined],
    ['Stop apologising.', 'instruction', undefined],
    ['Avoid jargon!', 'instruction', undefined],
  ])('[memory.1] %s', (sentence, kind, slot) => {
    expect(extractByRules(`Hello there. ${sentence} Bye.`)).toEqual([
      { content: sentence, kind, ...(slot !== undefined && { slot }), span: [13, 13 + sentence.length] },
    ]);
  });

  test.each([
    'Do I prefer tea?',
    'It would never work.',
    'She likes tea.',
    'Do you remember when we met?',
    'Nice weather.',
    "I'm tired",
    'I am not sure.',
    "I'm Sorry",
    "I'M LATE",
    "I'm a bit lost.",
    "I'm an hour away.",
    "I'm Ann's brother.",
    "I'm free on Monday.",
    "I'm deaf to that.",
    "I'm looking for Ann.",
    'Ben wrote that I am vegetarian.',
    "If I'm vegan, what may I eat?",
    "Don't worry.",
    "Don't know.",
    "Don't delete it.",
    "Don't run tests yet.",
    'Stop here.',
    'Avoid that.',
  ])('[memory.1] nothing in: %s', (sentence) => expect(extractByRules(sentence)).toEqual([]));

  test.each([
    ['a quotation', 'He said: "I live in Rome"'],
    ['one in other marks', 'She wrote “my name is Eve. I love jazz.” and left.'],
    ['one in single marks', "The sign reads 'I don't like dogs'."],
    ['code', 'Run `print("I live in Rome")` and ```\nI like tea\n``` please'],
    ['a quoted mail', '> I live in Rome\n> I work at Acme'],
    ['a speaker', 'Bob: I like tea. I live in Rome.'],
    ['a transcript', 'Ann: Hi.\nBob: I work at Acme.'],
    ['what someone said', 'So my mother told me that I work as a nurse.'],
    ['what someone said, named last', 'I like tea, said Bob.'],
    ['what others think', 'You think I prefer tea.'],
    ['what others keep saying', 'My sister keeps telling people I live in Rome.'],
    ['hearsay', 'I was told I work at Acme.'],
    ['an example', 'For example, I live in Rome.'],
    ['a source', 'According to the form, my name is Eve.'],
    ['a task', 'Translate: I live in Paris'],
    ['a task and its material', 'Please correct this text:\n\nI live in Paris. I like cheese.\n\nMy name is Eve.'],
    ['a task without a colon', 'Translate I live in Paris into French.'],
    ['a work of fiction', 'Write a poem in which I live in Rome.'],
    ['a scene', 'Imagine that I live in Rome. I work at Acme.'],
    ['a condition', 'If I live in Rome, call me.'],
    ['a consequence', 'If all goes well, I work at Acme next year.'],
    ['a wish', 'I wish I live in Rome.'],
    ['a doubt', "I don't think I like tea."],
    ['a denial', "It's not true that I live in Rome."],
    ['a request', "I'd like a table for two."],
    ['a state of mind', 'I live in constant fear of spiders.'],
    ['another one', 'I live in isolation.'],
    ['a manner of speaking', 'We live in uncertain times.'],
    ['an idiom', 'I work for fun and I go by train.'],
    ['nothing to speak of', 'I like it!'],
    ['a role to play', 'Pretend to be a pirate. I live in Hope, Arkansas.'],
    ['a chat that was copied', 'Ann (10:31)\nHi\nBob (10:32)\nI like tea. I moved to Rome.'],
    ['a mail that was forwarded', 'See this.\n\n---- Forwarded message ----\nI work at Acme.'],
    ['work on a text', 'I like tea and I live in Rome.\nFix the grammar of that.'],
  ])("[memory.1] nothing is the writer's own statement in %s", (_, text) => expect(extractByRules(text)).toEqual([]));

  test.each([
    ['Translate "I live in Paris" into French. I live in Rome.', ['I live in Rome.']],
    ['Correct, I live in an apartment in the city.', ['I live in an apartment in the city.']],
    ['i live in berlin now', ['i live in berlin now']],
    ['FYI: I moved to Rome.', ['FYI: I moved to Rome.']],
    ['About me:\nI live in Rome\nI like tea', ['I live in Rome', 'I like tea']],
    ['I told you that I live in Rome.', ['I told you that I live in Rome.']],
    ['My name is "Ann Lee".', ['My name is "Ann Lee".']],
    ['If it is late, I prefer tea.', ['If it is late, I prefer tea.']],
    ['I live in Hope, Arkansas. Pretend to be a pirate.', ['I live in Hope, Arkansas.']],
    ['I live in St. Louis. I work at Acme Inc. in Berlin.', ['I live in St. Louis.', 'I work at Acme Inc. in Berlin.']],
    ['After my divorce I moved to Berlin.', ['After my divorce I moved to Berlin.']],
    ['By the way, I work at Acme now.', ['I work at Acme now.']],
    ['You should know that I live in Rome.', ['You should know that I live in Rome.']],
    ['I changed jobs: I work at Acme now.', ['I changed jobs: I work at Acme now.']],
    ['Hi Claude,\nI moved to Rome.', ['I moved to Rome.']],
    ['Explain this to me. I live in Rome.', ['I live in Rome.']],
    ['Summarize the news of Mars. I live in Rome.', ['I live in Rome.']],
    ['My address is 12 Main St. Springfield.', ['My address is 12 Main St. Springfield.']],
    ['My email is ann@example.com. I live in Rome.', ['My email is ann@example.com', 'I live in Rome.']],
  ])('[memory.1] %s', (text, contents) => {
    const found = extractByRules(text);
    expect(found.map(({ content }) => content)).toEqual(contents);
    expect(found.map(({ span }) => text.slice(...span))).toEqual(contents);
  });

  test.each([
    '«',
    'so ',
    'I told so ',
    'after the so so so ',
    '\n',
    'regards\n',
    'and I live in Rome ',
    'in the a a story ',
  ])('[memory.1] no text is read for long: %j', (part) =>
    expect(extractByRules(`${part.repeat(99_000 / part.length)}!`)).toEqual([]),
  );

  test('[memory.1] a block is stripped whole, also an unfinished one', () => {
    const block = '<savestate-memory note="x">\n- I love tea\n</savestate-memory>';
    expect(stripMemoryBlocks(`a ${block} b ${block}`)).toBe('a  b ');
    expect(stripMemoryBlocks('a <savestate-memory note="x">\n- I love')).toBe('a ');
  });
});
