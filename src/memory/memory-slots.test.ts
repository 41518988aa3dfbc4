import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from '../../test/support/storages.ts';
import { Memory } from './index.ts';
import { extractByRules } from './log/extract-by-rules.ts';

const userId = 'ann';
const scope = { userId };

function open(): Memory {
  const memory = new Memory({ path: join(temporaryFolder(), 'history.db') });
  onTestFinished(() => memory.close());
  return memory;
}

async function found(memory: Memory, question: string): Promise<string[]> {
  return (await memory.search(question, scope)).results.map((hit) => hit.memory);
}

describe('what was superseded is not served as true', () => {
  test.each([
    ['I live in Paris.', 'I moved to Berlin.', 'Where do I live?'],
    ['Remember that I live in Paris.', "I've recently moved from Paris to Berlin.", 'What is my home address?'],
    ["I'm based in Paris.", 'My home is now Berlin.', 'Book a taxi home.'],
    ['I work at Paris Metro.', 'I joined Berlin Air.', 'Who is my employer?'],
    ['My favourite color is paris green.', 'My favourite colour is berlin blue.', "What's my favorite colour?"],
    ['Paris green is my favourite colour.', 'Berlin blue is my new favourite colour now.', 'favourite colour?'],
    ['My email is paris@example.org', 'My e-mail address is berlin@example.org', 'Which email do I use?'],
    ['My budget is 500 for Paris.', 'My budget is now 800, for Berlin.', 'What is my budget?'],
    ['My phone number is 555-1234, in Paris.', 'My phone number changed to 555-9999, in Berlin.', 'my phone number?'],
    ['My email is paris@example.org', 'My email has changed to berlin@example.org.', 'Which email do I use?'],
    ['My budget is 500 for Paris.', 'My budget was changed from 500 to 800, for Berlin.', 'What is my budget?'],
    [
      'My favourite colour is paris green.',
      'My favourite colour changed to berlin blue.',
      "What's my favourite colour?",
    ],
    ['Please call me Paris.', 'My name is Berlin.', 'What is my name?'],
    ['I live in Paris.', 'No wait, I live in Berlin.', 'Where do I live?'],
    ['I live in Paris.', "We've settled in Berlin now.", 'Where do I live?'],
    ['I work as a guide in Paris.', 'I was promoted to head of Berlin.', 'What do I do for a living?'],
  ])('[memory.3] %s %s %s', async (before, after, question) => {
    const memory = open();
    await memory.add(before, scope);
    await memory.add('Nice weather today in my garden.', scope);
    await memory.add(after, scope);
    const hits = await found(memory, question);
    expect(hits[0]).toMatch(/Berlin/i);
    expect(hits.join('\n')).not.toMatch(/Paris(?! to)/i);
    const { text } = await memory.render('{memory}', { scope, query: question });
    expect(text).toMatch(/Berlin/i);
    expect(text).not.toMatch(/Paris(?! to)/i);
    const all = (await memory.getAll({ ...scope, showExpired: true })).map((record) => record.memory).join('\n');
    expect(all).toMatch(/Paris/i);
  });

  test('[memory.3] of a turn that said more the rest is served; history, why and get keep the words', async () => {
    const memory = open();
    const { results } = await memory.add('Hello! I live in Paris and I love jazz. The cat is fine.', scope);
    await memory.add('I moved to Berlin.', scope);
    const hits = await found(memory, 'jazz music and the cat');
    expect(hits.join('\n')).toMatch(/jazz/);
    expect(hits.join('\n')).toMatch(/cat is fine/);
    expect(hits.join('\n')).not.toMatch(/Paris/);
    const turn = results.find(({ kind }) => kind === 'episode')?.id ?? '';
    expect((await memory.get(turn))?.memory).toContain('Paris');
    const home = results.find((result) => result.memory === 'I live in Paris')?.id ?? '';
    expect((await memory.history(home)).map(({ action }) => action)).toEqual(['ADD', 'SUPERSEDE']);
    expect((await memory.why(home)).sources[0]?.turns[0]?.memory).toContain('Paris');
  });

  test('[memory.3] also what was said again, in other runs, and before one moved back', async () => {
    const memory = open();
    await memory.add('I live in Paris.', { ...scope, runId: '1' });
    await memory.add('I live in Paris now, by the way.', { ...scope, runId: '1' });
    await memory.add('I moved to Berlin.', { ...scope, runId: '2' });
    expect(await found(memory, 'Where do I live?')).toEqual(['I moved to Berlin.']);
    await memory.add('I live in Paris.', { ...scope, runId: '1' });
    expect((await found(memory, 'Where do I live?')).slice(0, 1)).toEqual(['I live in Paris.']);
  });

  test('[memory.3] the end of something ends that and nothing else', async () => {
    const memory = open();
    await memory.add('I work at Acme and live in Rome.', scope);
    await memory.add('I left Globex long ago.', scope);
    expect(await found(memory, 'Where do I work?')).toContain('I work at Acme');
    await memory.add('I no longer work at Acme.', scope);
    expect(await found(memory, 'Where do I work?')).not.toContain('I work at Acme');
    expect(await found(memory, 'Where do I live?')).toContain('live in Rome.');
  });

  test.each([
    ['I work at Acme.', 'I no longer work at Acme.', 'I work at Acme again.', 'I work at Globex.'],
    ['My name is Bob.', 'My name is not Bob.', 'My name is Bob.', 'My name is Eve.'],
    ['I live in Rome.', 'I moved out of Rome.', 'I moved back to Rome.', 'I moved to Oslo.'],
    ['My budget is 500.', 'My budget is no longer 500.', 'My budget is 500 again.', 'My budget is 700.'],
    ['I like tea.', 'I no longer like tea.', 'I like tea.', 'I like coffee.'],
  ])('[memory.3] %s %s %s', async (...sayings) => {
    const [before, denial, again, other] = sayings;
    const known = async (...said: string[]) => {
      const memory = open();
      for (const words of said) await memory.add(words, scope);
      return (await memory.getAll(scope)).flatMap(({ kind, memory: words }) => (kind === 'episode' ? [] : [words]));
    };
    expect(await known(before, denial, again)).toEqual([again]);
    expect(await known(before, denial, other)).toEqual([denial, other]); // both are true
    expect(await known(before, denial, again, denial)).toEqual([denial]);
  });

  test.each([
    ['My favourite colour is green.', 'Green is no longer my favourite colour.', 'My favourite colour is not red.'],
    ['My budget is 500.', "My budget isn't 500 any more.", "My budget isn't 700."],
    ['My name is Bob.', 'My name is not Bob.', 'My name is not Eve.'],
    ['I live in Berlin.', "I don't live in Berlin any more.", "I don't live in Paris."],
    ['I like tea.', "I don't like tea any more.", "I don't like coffee."],
    ['I prefer tea over coffee.', 'I prefer coffee over tea now.', 'I prefer wine over tea.'],
    ['I like tea more than coffee.', 'I like tea less than coffee.', 'I like tea more than wine.'],
    ['I prefer green tea without milk.', 'I prefer green tea with milk.', 'I prefer black tea with milk.'],
    ['I prefer flights before 9 am.', 'I prefer flights after 9 am.', 'I prefer trains after 9 am.'],
    ['Always answer in French.', 'Never answer in French.', 'Never answer in German.'],
    ['I like tea.', 'I hate tea.', 'I hate coffee.'],
    ['I love jazz.', 'I really dislike jazz now.', 'I dislike opera.'],
    ['I love sushi.', 'I no longer like sushi.', 'I no longer like ramen.'],
    ["I can't stand early meetings.", 'I enjoy early meetings.', 'I enjoy late meetings.'],
    ['I am into chess.', "I'm not into chess anymore.", "I'm not into poker."],
    ['I am allergic to peanuts.', "I'm not allergic to peanuts after all.", 'I am allergic to shrimp.'],
    ["I'm vegetarian.", "I'm not vegetarian anymore.", "I'm not diabetic any more."],
    ['I am married.', 'I am not married any more.', 'I am not retired.'],
  ])('[memory.3] %s %s', async (before, denial, other) => {
    const memory = open();
    await memory.add(before, scope);
    const known = async () => (await memory.getAll(scope)).map((record) => record.memory);
    expect((await memory.add(other, scope)).superseded).toEqual([]);
    expect(await known()).toContain(before);
    expect((await memory.add(denial, scope)).superseded).toHaveLength(1);
    expect(await known()).not.toContain(before);
    expect(await known()).toContain(denial);
  });

  test('[memory.3] what is said in stronger words, or denied twice, is the same again', async () => {
    const memory = open();
    await memory.add('I like tea.', scope);
    for (const again of ['I really love tea.', "I don't hate tea.", 'I still like tea.'])
      expect((await memory.add(again, scope)).superseded).toEqual([]);
    expect((await memory.getAll({ ...scope, kinds: ['preference'] })).map((record) => record.memory)).toHaveLength(1);
  });

  test('[memory.3] a sentence with one other word is another one, and not the same again', async () => {
    const memory = open();
    const rule = 'Always send the weekly report of the sales team in Lisbon to Ann by mail on Monday.';
    await memory.add(rule, scope);
    await memory.add(rule.replace('Ann', 'Bob'), scope);
    expect(await found(memory, 'Who gets the weekly report?')).toContain(rule.replace('Ann', 'Bob'));
    const { results } = await memory.search('weekly report', { ...scope, filters: { kind: 'instruction' } });
    expect(results).toHaveLength(2);
  });

  test('[memory.3] with showExpired the old ranks below what replaced it, and is marked', async () => {
    const memory = open();
    await memory.add('I live in Paris, where I live and live.', scope);
    await memory.add('I moved to Berlin.', scope);
    const { results } = await memory.search('Where do I live?', { ...scope, showExpired: true });
    expect(results.map(({ memory: words, isOutdated }) => [words.includes('Paris'), isOutdated])).toEqual([
      [false, undefined],
      [true, true],
    ]);
  });

  test('[memory.3] an old turn that was corrected is served as it is now', async () => {
    const memory = open();
    const { results } = await memory.add('I live in Paris.', scope);
    await memory.update(results[0]?.id ?? '', 'I love Rome.');
    await memory.add('I moved to Berlin.', scope);
    expect(await found(memory, 'Rome')).toContain('I love Rome.');
  });
});

test.each([
  'Never mind.',
  'Never heard of it.',
  'I like your answer.',
  'I like that idea.',
  'I prefer the second one.',
  'I hate to say it.',
])('[memory.1] what means nothing later teaches nothing: %s', (sentence) => {
  expect(extractByRules(sentence)).toEqual([]);
});

test.each([
  ["My name's Ann.", 'name'],
  ['my name is ann', 'name'],
  ['i live in rome', 'home'],
  ['I live in rome now', 'home'],
  ['I live in a flat in Rome', 'home'],
  ['I work for Acme Corp.', 'employer'],
  ['My job is a nurse.', 'role'],
  ['I turned 40 last week.', 'age'],
  ['My phone number is 555 1234', 'phone'],
  ['My deadline is Friday.', 'deadline'],
  ['my budget is 500 euros', 'budget'],
])('[memory.3] %s fills the slot %s', (sentence, slot) => {
  expect(extractByRules(sentence).map((found) => found.slot)).toEqual([slot]);
});

test.each([
  ['My email is ann@example.com, my phone is 555-1234.', { email: 'ann@example.com', phone: '555-1234.' }],
  ['My name is Ann, I live in Rome, and I work at Acme.', { name: 'Ann', home: 'Rome', employer: 'Acme.' }],
  ['Write to me: my email is ann@example.com.', {}],
  ['In my novel, I live in Rome, my name is Bob.', {}],
  ['By decree of the senate, I live in Rome, my name is Bob.', {}],
])('[memory.3] several facts in one sentence: %s', (sentence, wanted) => {
  const found = extractByRules(sentence).flatMap(({ slot, content }) =>
    slot === undefined ? [] : [[slot, content.split(' ').at(-1)]],
  );
  expect(Object.fromEntries(found)).toEqual(wanted);
});

test.each([
  'I joined a gym.',
  'I joined Bob for lunch.',
  'I started at 9 today.',
  'I turned 180 degrees.',
  'I work for myself.',
  'My budget is tight.',
  'My company is hiring.',
  'My email is full.',
  'My job is killing me.',
  'My name is on the list.',
  'My name is not important.',
  'My phone is dead.',
  'I joined the call late.',
  'I moved to the next question.',
  'Never call me before nine.',
  'I work at night.',
  'My wife is a doctor.',
])('[memory.3] nothing that has one value at a time: %s', (sentence) => {
  expect(extractByRules(sentence).flatMap(({ slot }) => slot ?? [])).toEqual([]);
});

describe('what is over is over in whatever sentence it is said, and only if its speaker says so', () => {
  const retires = async (before: string, after: string): Promise<boolean> => {
    const memory = open();
    await memory.add(before, scope);
    return (await memory.add(after, scope)).superseded.length > 0;
  };

  test.each([
    ['I am vegetarian.', 'By the way, I am no longer vegetarian.'],
    ['I am vegetarian.', 'I had a steak yesterday because I am no longer vegetarian.'],
    ['I am vegetarian.', 'You suggested a tofu curry, but I am no longer vegetarian, so pick something with meat.'],
    ['I am vegetarian.', "Thanks for the recipe, though I'm not vegetarian anymore."],
    ['I am vegetarian.', 'I am not vegetarian any longer, so steak is fine.'],
    ['I am vegetarian.', 'I stopped being vegetarian last year.'],
    ['I am vegetarian.', "Book me a table somewhere; I'm no longer vegetarian by the way."],
    ['I am vegetarian, so please no ham.', 'I am no longer vegetarian.'],
    ['Hi, I am vegetarian and I love dogs.', "I've given up being vegetarian."],
    ["I'm a nurse.", "I'm no longer a nurse, I retired in May."],
    ["I'm a smoker.", "By the way, I've moved to Lyon and I'm no longer a smoker."],
    ['I live in Paris.', "by the way, I've moved to Lyon and quit smoking last week"],
    ['I live in Paris.', 'After ten years in Paris we have moved to Berlin.'],
    ['I work at Acme.', "Since last month I don't work at Acme anymore, I'm at Initech now."],
    ['I like coffee.', 'Oh and I no longer like coffee, tea is fine.'],
    ['I love long walks.', 'Since my accident I no longer love long walks.'],
    ['I am married.', "I should tell you that I'm no longer married, so cancel the gift."],
    ['I am vegan.', 'I wanted to tell you that I am not vegan anymore.'],
    ['I am vegan.', "Remember that I'm no longer vegan."],
    ['Remember that I am vegan.', 'I am no longer vegan, sadly.'],
    ['I am vegan.', "Quick update on my diet – I'm no longer vegan – what would you suggest?"],
    ['I am vegan.', "Good news: I'm no longer vegan."],
    ['I am vegan.', "By the way I'm not vegan any longer which is why I asked about cheese"],
    ['I am vegan.', "Since I'm no longer vegan, what should I buy?"],
    ['I am a teacher.', 'I used to be a teacher, now I am a nurse.'],
    ['I like coffee.', 'Funny, I used to like coffee but not now.'],
    ['I live in Paris.', 'I used to live in Paris.'],
    ['I live in Paris.', 'Since March I live in Berlin.'],
    ['I work at Acme.', 'I got laid off from Acme yesterday.'],
    ['My email is ann@example.com.', 'I have a new email: ann@example.org, please use it.'],
    ['I prefer dark mode.', 'Could you switch me over? I prefer light mode now instead of dark mode.'],
    ['We decided to use Postgres.', 'We decided to use SQLite instead of Postgres.'],
  ])('[memory.3] %s %s', async (before, after) => {
    expect(await retires(before, after)).toBe(true);
  });

  test.each([
    ['I am vegetarian.', 'My brother is no longer vegetarian.'],
    ['I am vegetarian.', 'Bob said "I am no longer vegetarian" and laughed.'],
    ['I am vegetarian.', 'What if I am no longer vegetarian next year?'],
    ['I am vegetarian.', 'If I am no longer vegetarian by May, I will tell you.'],
    ['I am vegetarian.', 'Imagine I am no longer vegetarian. What would you cook?'],
    ['I am vegetarian.', 'My doctor thinks I am no longer vegetarian.'],
    ['I am vegetarian.', 'Translate: I am no longer vegetarian.'],
    ['I am vegetarian.', 'It is not true that I am no longer vegetarian.'],
    ['I am vegetarian.', 'Some people ask whether I am no longer vegetarian.'],
    ['I am vegetarian.', 'I am no longer vegetarian in the eyes of my aunt, she says.'],
    ['I am vegetarian.', 'I never stopped being vegetarian.'],
    ['I am vegetarian.', 'I might stop being vegetarian.'],
    ['I am vegetarian.', "I'm not vegetarian because of my health but for the animals."],
    ['I am vegetarian.', "I'm not only vegetarian, I'm vegan."],
    ['I am vegetarian.', 'The hero says he is no longer vegetarian, but I am.'],
    ['I like coffee.', 'I no longer like coffee in the evening.'],
    ['I like coffee.', 'I no longer like coffee, except in the morning.'],
    ['I like coffee.', 'In the evening, I no longer like coffee.'],
    ['I like coffee.', 'She no longer likes coffee, and I told her that I understand.'],
    ['I like tea.', 'I no longer like coffee, tea is fine.'],
    ['I live in Paris.', 'My sister has moved to Lyon and quit smoking.'],
    ['I live in Paris.', 'Would you mind if I moved to Lyon and quit smoking?'],
    ['I live in Paris.', 'When I no longer live in Paris, remind me to sell the bike.'],
    ['I am allergic to nuts.', "I'm no longer allergic to cats."],
    ['I am a teacher.', 'I used to be a nurse.'],
    ['I am a teacher.', 'I am used to being a teacher.'],
    ['I am vegan.', 'Bob wanted to tell you that I am not vegan anymore.'],
    ['I am vegan.', 'Since when am I no longer vegan?'],
    ['I am vegan.', "If I'm no longer vegan, what should I buy?"],
    ['I like coffee.', 'I like tea instead of coffee in the morning.'],
    ['I prefer dark mode.', 'I prefer long walks instead of dark rooms.'],
    ['I live in Paris.', 'I used to live in Berlin.'],
    ['I work at Acme.', 'I was fired up about Acme.'],
    ['I like coffee.', 'I never used to like coffee.'],
    ['My phone number is +49 151 1234567.', 'I have a new phone: an iPhone 15.'],
    ['I prefer short answers.', 'For emails I prefer long answers instead of short answers.'],
    ['I prefer dark mode.', 'I prefer light mode on my phone instead of dark mode.'],
    ['We decided to use Postgres.', 'Should we have decided to use SQLite instead of Postgres?'],
    ['I live in Paris.', 'In our story I live in Rome, so what can I see there?'],
    ['I am vegan.', 'Good news: Bob says I am no longer vegan.'],
  ])('[memory.3] %s %s: both hold', async (before, after) => {
    expect(await retires(before, after)).toBe(false);
  });

  test.each([
    ['I love Rome because it is warm, and I like the food.', ['I love Rome', 'I like the food.']],
    ['In the evening, I prefer tea.', ['In the evening, I prefer tea.']],
    ['I like tea, but only in the evening.', ['I like tea, but only in the evening.']],
    ['I like hiking, skiing and long walks.', ['I like hiking, skiing and long walks.']],
  ])('[memory.1] of "%s" is kept what is claimed, with what limits it', (text, claims) => {
    expect(extractByRules(text).map(({ content }) => content)).toEqual(claims);
  });
});

describe('what is not plainly said now replaces nothing', () => {
  test.each([
    ['a denial', "I don't live in Paris."],
    ['a denial of having said so', 'I never said I moved to Rome.'],
    ['a story', 'Write a story in which I live on Mars. My home is Olympus. I live in a dome in Tharsis.'],
    ['a game', "Let's play a game. I live in Atlantis."],
    ['a joke', 'I moved to Rome. Just kidding!'],
    ['a pasted mail', 'From: bob@example.com\nSubject: News\n\nHi Ann,\n\nI moved to Rome last week.\n\nBob'],
    ['a letter', 'Can you answer this?\n\nHello Ann,\nI live in Rome now.\n\nBest,\nBob'],
    ['a quotation that is not closed', 'She wrote “I live in Rome. Come and see me.'],
    ['a text to translate, after the request', 'Translate this into French.\n\nI live in Rome.'],
    ['a text to translate, before the request', 'I live in Rome.\n\nNow translate that to German.'],
    ['another speaker', 'Bob: I moved to Rome'],
    ['another speaker, in other marks', '<Bob> I moved to Rome\nBob (10:32)\nI moved to Rome.'],
    ['hearsay', 'In the words of my boss, I live in Rome.'],
    ['a question', 'do I live in Rome'],
    ['a question at the end', "I live in Rome, don't I"],
    ['a hypothesis', 'Hypothetically, I live in Rome.'],
    ['a condition', 'My address is Rome if I get the job.'],
    ['the past', 'In 2019 I lived in Oslo.'],
    ['a year', 'In 2019 I moved to Oslo.'],
    ['years ago', 'I moved to Oslo ten years ago.'],
    ['long ago', 'When I was a child I moved to Oslo.'],
    ['no place', 'My home is a mess.'],
    ['a way of life', 'I live in constant worry about money.'],
    ['a move of another sort', 'I moved to slide 3.'],
    ['a wrong address', 'My address is wrong in your system.'],
    ['a doubt in brackets', 'I live in Rome (not really).'],
    ['an opening that nobody thought of', 'By decree of the senate I live in Rome.'],
  ])('[memory.3] %s', async (_, said) => {
    const memory = open();
    await memory.add('I live in Berlin.', scope);
    const { superseded } = await memory.add(said, scope);
    expect(superseded).toEqual([]);
    expect((await found(memory, 'Where do I live?'))[0]).toBe('I live in Berlin.');
    expect((await memory.getAll({ ...scope, filters: { slot: 'home' } })).map((record) => record.memory)).toEqual([
      'I live in Berlin.',
    ]);
  });

  test('[memory.3] what is dated holds since then: it replaces what held before, in whichever run it was told', async () => {
    const memory = open();
    const told = new Date(Date.UTC(2018, 5, 1));
    await memory.add('I live in Paris.', { ...scope, runId: '1', observedAt: told });
    const moved = await memory.add('I moved to Oslo in May 2019.', { ...scope, runId: '1' });
    expect(moved.superseded).toHaveLength(1);
    await memory.add('I joined Acme in 2021.', { ...scope, runId: '1' });
    await memory.add('I joined Globex in 2020.', { ...scope, runId: '2' });
    const facts = await memory.getAll({ ...scope, kinds: ['fact'] });
    expect(facts.map((record) => [record.memory, record.validFrom])).toEqual([
      ['I moved to Oslo in May 2019.', new Date(Date.UTC(2019, 4, 1))],
      ['I joined Acme in 2021.', new Date(Date.UTC(2021, 0, 1))],
    ]);
  });
});
