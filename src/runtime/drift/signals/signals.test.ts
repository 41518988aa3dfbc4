import { describe, expect, test } from 'vitest';
import { DriftDetector } from '../drift-detector.ts';
import type { DriftOptions } from '../drift-options.ts';
import type { DriftEvent } from '../step/drift-event.ts';
import { SIGNAL_NAMES, type SignalName } from './signal-types.ts';

const call = (name: string, input: unknown, more: DriftEvent = {}): DriftEvent => ({
  kind: 'call',
  agent: 'worker',
  name,
  input,
  ...more,
});
const result = (text: string, more: DriftEvent = {}): DriftEvent => ({ kind: 'result', role: 'tool', text, ...more });
const say = (text: string, agent = 'worker'): DriftEvent => ({ kind: 'message', agent, text });
const fails = (text: string) => result(text, { isError: true });

/** Text that shares no run of words with any other number's. */
const page = (number: number) =>
  Array.from({ length: 40 }, (_, at) => `w${number * 1000 + at} of${(number * 37 + at) % 911}`).join(' ');

function watch(events: readonly DriftEvent[], options?: DriftOptions) {
  const detector = new DriftDetector(options);
  const seen = events.map((event) => detector.observe(event));
  const alarm = seen.find(({ status }) => status === 'drifting');
  return { alarm, last: seen.at(-1), signals: new Set(alarm?.evidence.map(({ signal }) => signal)) };
}

const times = <T>(count: number, make: (at: number) => T | readonly T[]): T[] =>
  Array.from({ length: count }, (_, at) => make(at)).flat() as T[];

/** Watches with one signal alone, so that a test shows what it does by itself. */
function only(name: SignalName, events: readonly DriftEvent[], options: DriftOptions = {}) {
  const others = SIGNAL_NAMES.filter((other) => other !== name);
  return watch(events, { ...options, without: others });
}

describe('repetition', () => {
  const poll = (text: (at: number) => string) => times(8, (at) => [call('fetch', { url: '/job/7' }), result(text(at))]);

  test('[drift.2] the same call with the same result is a loop at the fourth time, not before', () => {
    const events = poll(() => 'the job is still queued behind others');
    const { alarm } = watch(events);
    expect(alarm).toMatchObject({ index: 7, kinds: ['loop'], agent: 'worker', onset: 0 });
    expect(alarm?.evidence.at(-1)).toMatchObject({ signal: 'repetition', steps: [4, 6] });
    expect(alarm?.summary).toContain('The call of "fetch" is the same as before');
  });

  test('[drift.2] the same call with a new result each time is polling, not a loop', () => {
    expect(watch(poll((at) => `${at * 10} percent of part ${at} are done`)).alarm).toBeUndefined();
  });

  test('[drift.2] so is a call that returns the same but for a number, and one that is made again after a wait', () => {
    expect(watch(poll((at) => `the job is running, ${at + 30} rows are left`)).alarm).toBeUndefined();
    const waits = times(40, (at) => [
      call('status', { job: 7 }, { at: at * 60_000 }),
      result('the job is still queued'),
    ]);
    expect(only('repetition', waits).alarm).toBeUndefined();
    expect(
      only(
        'repetition',
        waits.map((event) => ({ ...event, at: 0 })),
      ).alarm,
    ).toBeDefined();
  });

  test('[drift.2] the same call that fails again is a loop at the third time', () => {
    const events = times(3, () => [call('shell', 'make all'), fails('make: no rule to make target all')]);
    expect(only('repetition', events).alarm).toMatchObject({ index: 5, kinds: ['loop'] });
    expect(only('repetition', events.slice(0, 4)).alarm).toBeUndefined();
  });

  test('[drift.2] tools that are there to be polled may be polled', () => {
    const events = times(50, () => [
      call('check_mailbox', {}, { stateDigest: 'same' }),
      result('no new messages came in'),
    ]);
    expect(watch(events).alarm).toBeDefined();
    expect(watch(events, { pollingTools: ['check_mailbox'] }).alarm).toBeUndefined();
  });

  test('[drift.2] calls that are never answered count for less', () => {
    const events = times(9, () => call('read', { path: 'a.ts' }));
    expect(only('repetition', events).alarm?.index).toBe(4);
  });

  test('[drift.2] calls made at once do not repeat each other', () => {
    const batch = [
      ...times(8, () => call('ask', 'what does the council say about the bridge')),
      ...times(8, (at) => result(`the council says ${page(at)}`)),
    ];
    const warm = times(3, (at) => [call('read', `f${at}`), result(page(at + 50))]);
    expect(watch([...warm, ...batch]).alarm).toBeUndefined();
  });

  test('[drift.2] numbers and texts, and keys in another order, are the same input', () => {
    const events = [
      ...times(2, () => [call('read', { from: 1, path: 'a.ts' }), result('one line of text')]),
      ...times(2, () => [call('read', { path: 'a.ts', from: '1' }), result('one line of text')]),
    ];
    expect(only('repetition', events).alarm).toBeDefined();
  });

  test('[drift.2] a call repeated now and then between new work is no loop', () => {
    const events = times(30, (at) => [
      call('edit', { path: `m${at}.ts`, text: page(at) }),
      result(page(at + 100)),
      call('test', {}),
      result(at % 2 === 0 ? 'all tests passed again' : `test number ${at} failed in file ${at}`),
    ]);
    expect(watch(events).alarm).toBeUndefined();
  });
});

describe('nearly the same call', () => {
  const query = (words: string) => call('search', { query: words });

  test('[drift.3] asking the same in other words or another order, for the same answers, is a loop', () => {
    const words = ['rainfall', 'records', 'of', 'the', 'lisbon', 'station', 'during', 'winter'];
    const events = times(10, (at) => [
      query([...words.slice(at % 8), ...words.slice(0, at % 8), at % 2 === 0 ? 'table' : 'list'].join(' ')),
      result('Results: climate tables, weather almanac, station list, winter storms'),
    ]);
    const { alarm, signals } = watch(events);
    expect(alarm?.kinds).toContain('loop');
    expect(signals).toContain('repetition');
  });

  test('[drift.3] the same done to one thing after another is work on a list', () => {
    const events = times(60, (at) => [
      call('edit', { path: `src/module-${at}.ts`, text: 'add the licence header on top of this very file' }),
      result('ok'),
    ]);
    expect(watch(events).alarm).toBeUndefined();
  });

  test('[drift.3] different questions with different answers are no loop', () => {
    const events = times(30, (at) => [query(page(at).slice(0, 60)), result(page(at + 500))]);
    expect(watch(events).alarm).toBeUndefined();
  });
});

describe('asking again', () => {
  const goal = {
    kind: 'goal',
    role: 'user',
    text: 'Find the yearly rainfall in Lisbon by official station records since 1990.',
  };
  const ask = (query: string, answer: string, more?: DriftEvent) => [
    call('web_search', { query }),
    result(answer, more),
  ];

  test('[drift.3] asking an answered question twice more in known words is a loop, whatever the answers', () => {
    const events = [
      goal,
      ...ask('official rainfall records Lisbon station', page(1)),
      ...ask('Lisbon station official rainfall records since', page(2)),
      ...ask('records official Lisbon station rainfall yearly', page(3)),
    ];
    expect(only('repetition', events).alarm).toMatchObject({ index: 6, kinds: ['loop'] });
    expect(only('repetition', events.slice(0, 5)).alarm).toBeUndefined();
  });

  test('[drift.3] a question with a new word in it is another question', () => {
    const years = times(20, (at) => ask(`official rainfall records Lisbon station ${1991 + at}`, page(at)));
    expect(watch([goal, ...years]).alarm).toBeUndefined();
  });

  test('[drift.3] a command is no question', () => {
    const commands = times(4, (at) => ask(`grep -rn $LISBON rainfall records station | head -${at}`, page(at)));
    expect(only('repetition', [goal, ...commands]).last?.scores.loop).toBeUndefined();
  });
});

describe('a cycle', () => {
  const round = [call('open', 'a'), result('file a has this content'), call('close', 'a'), result('file a is closed')];

  test('[drift.4] two calls in turn, three times over, are a loop; twice over they are none', () => {
    const cycle = times(3, () => round);
    expect(watch(cycle).alarm?.kinds).toEqual(['loop']);
    expect(watch(cycle.slice(0, 8)).alarm).toBeUndefined();
  });

  test('[drift.4] six calls in turn are a loop in the third round at the latest', () => {
    const cycle = times(18, (at) => [call(`tool${at % 6}`, 'a'), result(`tool ${at % 6} has nothing to say`)]);
    expect(watch(cycle).alarm?.kinds).toEqual(['loop']);
  });

  test('[drift.4] a cycle whose results move on is not one', () => {
    const events = times(6, (at) => [
      call('build', {}),
      result(`build ${at} took long`),
      call('run', {}),
      result(page(at)),
    ]);
    expect(watch(events).alarm).toBeUndefined();
  });
});

describe('state recurrence', () => {
  test('[drift.4] it catches a loop in which every text differs', () => {
    const events = times(4, (round) => [
      say(`Attempt ${page(round)}`),
      call('move', { to: 'left' }, { stateDigest: 'sha256-A' }),
      result(`moved at ${page(round + 50)}`),
      call('move', { to: 'right' }, { stateDigest: 'sha256-B' }),
      result(`moved back at ${page(round + 90)}`),
    ]);
    const { alarm, signals } = watch(events);
    expect(alarm).toMatchObject({ kinds: ['loop'], index: 8 });
    expect(signals).toEqual(new Set(['state-recurrence']));
    expect(alarm?.evidence[0]).toMatchObject({ steps: [1, 6] });
    expect(watch(events, { without: ['state-recurrence'] }).alarm).toBeUndefined();
  });

  test('[drift.4] another act in the same state, and the same act in another state, are no witness', () => {
    const acts = times(20, (at) => call('try', { key: `k${at}` }, { stateDigest: 'sha256-A' }));
    expect(only('state-recurrence', acts).alarm).toBeUndefined();
    const states = times(20, (at) => call('step', {}, { stateDigest: `sha256-${at}` }));
    expect(only('state-recurrence', states).alarm).toBeUndefined();
  });

  test('[drift.4] inputs are compared exactly: keys and types count, their order does not', () => {
    const twins = [
      { a: 1, b: 2 },
      { b: 2, a: 1 },
      { a: 1, b: 2 },
    ].map((input) => call('x', input, { stateDigest: 's' }));
    expect(only('state-recurrence', twins).alarm).toBeDefined();
    const others = [{ a: 1 }, { a: '1' }, { b: 1 }, [1]].map((input) => call('x', input, { stateDigest: 's' }));
    expect(only('state-recurrence', others).last?.scores.loop).toBeUndefined();
  });

  test('[drift.4] cycles in which nothing is done are no loop; [drift.7] more than four that leave the state as it was are a stall', () => {
    const cycles = (digest: (at: number) => string | undefined) =>
      times(50, (at) => {
        const stateDigest = digest(at);
        return { kind: 'cycle', agent: 'worker', ...(stateDigest !== undefined && { stateDigest }) };
      });
    expect(watch(cycles(() => undefined)).alarm).toBeUndefined();
    expect(watch(cycles((at) => `sha256-${Math.floor(at / 5)}`)).alarm).toBeUndefined();
    expect(watch(cycles(() => 'sha256-A')).alarm?.kinds).toEqual(['stall']);
    expect(watch(cycles((at) => `sha256-${at % 3}`)).alarm?.kinds).toEqual(['stall']);
    const asked = cycles(() => 'sha256-A').flatMap((cycle, at) => [{ role: 'user', text: `message ${at}` }, cycle]);
    expect(watch(asked).alarm).toBeUndefined();
  });

  test('[drift.4] an input that JSON cannot hold is no witness', () => {
    const ring: Record<string, unknown> = {};
    ring.self = ring;
    const events = times(5, () => call('x', ring, { stateDigest: 's' }));
    expect(only('state-recurrence', events).last?.scores.loop).toBeUndefined();
  });
});

describe('saying it again', () => {
  const words = 'I should now look into the settings of the build';

  test('[drift.6] saying the same three times with nothing in between is drift, twice is not', () => {
    const said = times(3, () => say(words));
    expect(watch(said).alarm).toMatchObject({ index: 2, kinds: ['stall'] });
    expect(watch(said.slice(0, 2)).alarm).toBeUndefined();
  });

  test('[drift.6] saying the same between acts is none', () => {
    const acting = times(6, (at) => [say(words), call('read', `f${at}`), result(page(at))]);
    expect(watch(acting).alarm).toBeUndefined();
  });

  test('[drift.6] one message that says one sentence over and over is a chant', () => {
    const sentence = 'I will check the file once more. ';
    expect(only('chant', [say(sentence.repeat(12))]).alarm?.index).toBe(0);
    expect(only('chant', [say(sentence.repeat(4))]).alarm).toBeUndefined();
  });

  test('[drift.6] code, lists and tables may repeat themselves', () => {
    const code = `\`\`\`\n${'  cells.push(new Cell(0, 0, 0));\n'.repeat(30)}\`\`\``;
    const list = '- the same line of a long list\n'.repeat(30);
    const table = '| zero | zero | zero | zero |\n'.repeat(30);
    for (const text of [code, list, table]) expect(only('chant', [say(text)]).alarm).toBeUndefined();
  });
});

describe('stall', () => {
  const order = 'Please look for the price list of the museum on its website';

  test('[drift.6] a talk in which both say again what they said is a stall', () => {
    const events = times(6, (at) => [
      say(`${order}, page ${at}.`, 'lead'),
      say(`I looked at the website of the museum and found the opening hours, try ${at}.`, 'surfer'),
    ]);
    const { alarm } = only('stall', events);
    expect(alarm?.kinds).toEqual(['stall']);
    expect(alarm?.evidence.at(-1)?.reason).toMatch(
      /repeats \d+ % of an earlier message, and only \d+ % of this one is new/,
    );
  });

  test('[drift.6] the same words for different jobs, or to a person who speaks in between, are none', () => {
    const jobs = times(14, (at) => ({ ...say(`${order}, page ${at % 3}.`), job: `message ${at}` }));
    expect(only('stall', jobs).alarm).toBeUndefined();
    const person = { kind: 'message', role: 'user', text: 'Where is my order?' };
    const asked = times(30, () => [person, say('Thank you for your message. We will answer within two days.')]);
    expect(watch(asked).alarm).toBeUndefined();
    expect(watch(asked.filter((event) => event !== person)).alarm?.kinds).toEqual(['stall']);
  });

  test('[drift.6] a talk that brings something new each time is none', () => {
    const events = times(12, (at) => [say(page(at), 'lead'), say(page(at + 40), 'surfer')]);
    expect(only('stall', events).alarm).toBeUndefined();
  });

  test('[drift.6] an agent that acts is judged by its acts, not by its words', () => {
    const events = times(12, (at) => [say(order), call('open', `page-${at}`), result(page(at))]);
    expect(watch(events).alarm).toBeUndefined();
  });

  test('[drift.6] who has set a task for others may urge them on; who has set its own may not', () => {
    const task = { kind: 'goal', agent: 'proxy', role: 'agent', text: 'Solve the puzzle of the nine gates.' };
    const urged = times(8, (at) => [
      say('Continue. Please keep solving the puzzle until you are done.', 'proxy'),
      say(page(at)),
    ]);
    expect(only('stall', [task, ...urged]).alarm).toBeUndefined();
    const alone = times(8, () => say('Continue. I keep solving the puzzle until I am done.', 'proxy'));
    expect(only('stall', [task, ...alone]).alarm).toBeDefined();
  });

  test.each(['user', 'developer', 'function'])('[drift.6] what a %s says is not watched', (role) => {
    const events = times(8, () => ({ kind: 'message', role, text: order }));
    expect(watch(events).alarm).toBeUndefined();
  });
});

describe('idle calls and cycle count', () => {
  const idle = (count: number) =>
    times(count, (at) => [
      call('search', { code: `look at the rows in another way${' again'.repeat(at % 3)}` }),
      result('nothing was found there'),
    ]);

  test('[drift.7] too many calls in a row that bring nothing new are a stall', () => {
    expect(only('stall', idle(16)).alarm).toMatchObject({ kinds: ['stall'] });
    expect(only('stall', idle(12)).alarm).toBeUndefined();
    expect(only('stall', idle(12), { maxIdleSteps: 3 }).alarm).toBeDefined();
  });

  test('[drift.7] fruitful calls in between make up for them', () => {
    const events = times(12, (at) => [
      ...idle(2),
      ...times(2, (nth) => [call('read', `p${at}${nth}`), result(page(2 * at + nth))]),
    ]);
    expect(only('stall', events).alarm).toBeUndefined();
  });

  test('[drift.7] doing the same to new things, and the first look-up for each request, are no idle calls', () => {
    const batch = times(40, (at) => [call('mail', { to: `user${at}@example.com` }), result('sent')]);
    expect(watch(batch).alarm).toBeUndefined();
    const asked = times(40, (at) => [
      { kind: 'message', role: 'user', text: `Is there a table for party number ${at}?` },
      call('hours', {}),
      result('open from nine to five on all days'),
    ]);
    expect(watch(asked).alarm).toBeUndefined();
    const jobs = times(40, (at) => [
      call('hours', {}, { job: `job ${at}` }),
      result('open from nine to five on all days'),
    ]);
    expect(watch(jobs).alarm).toBeUndefined();
  });

  test('[drift.7] the number of cycles is evidence only if one is expected', () => {
    const cycles = times(200, () => ({ kind: 'cycle', agent: 'worker' }));
    expect(watch(cycles).alarm).toBeUndefined();
    const { alarm } = watch(cycles, { expectedCycles: 50 });
    expect(alarm?.index).toBeGreaterThan(50);
    expect(alarm?.summary).toContain('expected to take 50');
  });

  test('[drift.7] a new goal begins the count anew', () => {
    const cycles = times(8, () => [{ kind: 'goal', text: 'next' }, ...times(45, () => ({ kind: 'cycle' }))]);
    expect(watch(cycles, { expectedCycles: 50 }).alarm).toBeUndefined();
  });
});

describe('error rate', () => {
  const step = (at: number, isError: boolean) => [
    call(`tool${at}`, page(at)),
    isError ? fails(`failure ${page(at + 9)}`) : result(page(at + 9)),
  ];

  test('[drift.5] different steps that all fail are drift at the fourth, and one success delays it', () => {
    expect(watch(times(5, (at) => step(at, true))).alarm).toMatchObject({ index: 7, kinds: ['error'] });
    const mended = times(6, (at) => step(at, at !== 2));
    expect(watch(mended).alarm?.index).toBe(11);
  });

  test('[drift.5] one failure in five is healthy, however long it goes on', () => {
    expect(watch(times(200, (at) => step(at, at % 5 === 0))).alarm).toBeUndefined();
  });

  test('[drift.5] a retry that succeeds makes its failures good', () => {
    const retried = times(60, (at) => [
      ...times(2, () => [call('pay', { order: at }), fails('503 service unavailable')]),
      call('pay', { order: at }),
      result('paid'),
    ]);
    expect(watch(retried).alarm).toBeUndefined();
    const backoff = (order: number, tries: number) =>
      times(tries, (at) => [call('pay', order), fails(`429 too many requests, retry after ${2 ** at} s`)]);
    const paid = times(60, (order) => [...backoff(order, 5), call('pay', order), result('paid')]);
    expect(watch(paid).alarm).toBeUndefined();
    expect(watch(backoff(1, 8)).alarm).toBeDefined();
  });

  test('[drift.5] calls made at once that fail at once count once', () => {
    const batch = (at: number) => [
      ...times(5, (nth) => call('buy', { item: `i${at}-${nth}` }, { callId: `${at}-${nth}` })),
      ...times(5, (nth) => result('budget exceeded', { isError: true, callId: `${at}-${nth}` })),
    ];
    expect(only('error-rate', batch(0)).last?.scores.error).toBeLessThan(0.5);
    expect(only('error-rate', times(4, batch)).alarm).toBeDefined();
  });

  test('[drift.5] a tool that is down for one job after the other does not make the agent drift', () => {
    const down = times(30, (at) => [
      call('pay', { order: at }, { job: `message ${at}` }),
      fails(`503 for order ${at}: try later`),
    ]);
    expect(watch(down).alarm).toBeUndefined();
    expect(watch(down.map((event) => ({ ...event, job: 'one' }))).alarm).toBeDefined();
  });

  test('[drift.5] talking about a failure is no success', () => {
    const events = times(4, (at) => [...step(at, true), say(`That failed. ${page(at + 70)}`)]);
    expect(only('error-rate', events).alarm?.index).toBe(10);
  });
});

describe('context', () => {
  test('[drift.7] a context that stays nearly full, or is cut again and again, is drift', () => {
    const sizes = (list: readonly number[]) => list.map((contextTokens) => ({ kind: 'cycle', contextTokens }));
    const full = times(10, () => 95_000);
    expect(watch(sizes(full), { contextLimitTokens: 100_000 }).alarm?.kinds).toEqual(['context']);
    expect(watch(sizes(full), { contextLimitTokens: 200_000 }).alarm).toBeUndefined();
    const cut = times(5, () => [20_000, 60_000, 100_000]);
    expect(watch(sizes(cut)).alarm?.kinds).toEqual(['context']);
    expect(watch(sizes(times(100, (at) => 1000 * at))).alarm).toBeUndefined();
  });
});

describe('goal', () => {
  const goal = { kind: 'goal', role: 'user', text: 'Find out how many bridges the city of Porto has.' };
  const plan = { kind: 'plan', agent: 'worker', text: 'Look the number up in the register of bridges.' };
  const answer = call('final_answer', { answer: 'six bridges' });

  test('[drift.8] an answer after tools that told nothing is unfounded', () => {
    const echo = [call('python', 'print("search: bridges of Porto")'), result('search: bridges of Porto')];
    const { alarm } = watch([goal, plan, ...echo, answer]);
    expect(alarm).toMatchObject({ index: 4, kinds: ['goal'] });
    expect(alarm?.summary).toMatch(/its tools have told it only \d+ words/);
  });

  test('[drift.8] an answer after a page that was read is not, nor one that needed no tools', () => {
    expect(watch([goal, plan, call('open', 'register'), result(page(3)), answer]).alarm).toBeUndefined();
    expect(watch([goal, answer]).alarm).toBeUndefined();
  });

  test('[drift.8] what an error says founds nothing', () => {
    expect(watch([goal, plan, call('open', 'register'), fails(page(3)), answer]).alarm).toBeDefined();
  });

  test('[drift.8] a stated goal that fades from what is said is drift, and so is a given one', () => {
    const stated = { kind: 'system', text: 'Your goal is to reduce the water consumption of the gardens.' };
    const off = times(60, (at) => [
      say(`Selling more tickets: ${page(at)}`),
      call('sell', `t${at}`),
      result(page(at + 99)),
    ]);
    const on = times(60, (at) => [say(`Water consumption of the gardens: ${page(at)}`), call('cut', `t${at}`)]);
    expect(watch([stated, ...off]).alarm?.kinds).toEqual(['goal']);
    expect(watch([stated, ...on]).alarm).toBeUndefined();
    expect(watch(off).alarm).toBeUndefined();
    expect(watch(off, { goal: 'reduce the water consumption of the gardens' }).alarm?.kinds).toEqual(['goal']);
  });

  const off = times(45, (at) => say(`Caravans carried porcelain over the mountains: ${page(at)}`));

  test.each([
    ['English', 'Fix the failing unit tests in the payment module', 'The test of the payments is red because of'],
    ['a sentence of one', 'Your objective is to lower the water bill of the gardens.', 'Watering the garden less:'],
    ['German', 'Repariere die fehlschlagenden Tests im Zahlungsmodul', 'Der Test der Zahlungen schlägt fehl wegen'],
    ['French', 'Corriger les tests du module de paiement', 'Le paiement échoue dans ce test à cause de'],
    ['Russian', 'Исправь падающие тесты модуля оплаты', 'Тест оплаты снова падает из-за'],
    ['Chinese', '修复支付模块中失败的单元测试', '支付模块的测试现在因为这个原因失败了'],
    ['Japanese', '決済モジュールの失敗しているテストを直す', '決済のテストはまだ失敗しています'],
    ['Korean', '결제 모듈의 실패하는 테스트를 수정하세요', '결제 테스트가 아직 실패합니다. 이유는 다음과 같습니다'],
  ])('[drift.8] a goal in %s counts as it is written', (_language, text, about) => {
    const on = times(45, (at) => say(`${at % 3 === 0 ? about : 'The next thing that came up was'} ${page(at)}`));
    expect(watch([{ kind: 'goal', text }, ...off]).alarm?.kinds).toEqual(['goal']);
    expect(watch([{ kind: 'goal', text }, ...on]).alarm).toBeUndefined();
  });

  test('[drift.8] calls count as messages do, unless they say too little to tell', () => {
    const told = { kind: 'goal', text: 'Fix the failing unit tests in the payment module' };
    const calls = (input: (at: number) => unknown) =>
      times(45, (at) => [call('look_up', input(at)), result(page(at + 200))]);
    const query = (at: number) => ({ query: `caravans and porcelain over the mountains ${page(at)}` });
    expect(watch([told, ...calls(query)]).alarm?.kinds).toEqual(['goal']);
    expect(watch([told, ...calls((at) => ({ path: `src/payment/p${at}.ts`, text: page(at) }))]).alarm).toBeUndefined();
    expect(watch([told, ...calls((at) => ({ order: at }))]).alarm).toBeUndefined();
  });

  test('[drift.8] who answers what a person asks does not lose its goal, and a new goal replaces the one before', () => {
    const told = { kind: 'goal', text: 'Keep the customers happy' };
    const asked = times(45, (at) => [
      { kind: 'message', role: 'user', text: `Where is the parcel with porcelain number ${at}?` },
      say(`Parcel ${at} left the house on Tuesday: ${page(at)}`),
    ]);
    expect(watch([told, ...asked]).alarm).toBeUndefined();
    const renewed = { kind: 'goal', text: 'Write about caravans and porcelain' };
    expect(watch([told, ...off.slice(0, 25), renewed, ...off.slice(25)]).alarm).toBeUndefined();
  });
});
