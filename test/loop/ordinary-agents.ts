import type { DriftEvent } from '../../src/runtime/drift/index.ts';

/** What an agent does: it uses a tool and gets a result, says something, hears something, or waits. */
export type Act =
  | {
      readonly kind: 'call';
      readonly name: string;
      readonly input: object;
      readonly text: string;
      readonly isError?: boolean;
    }
  | { readonly kind: 'say' | 'hear'; readonly text: string }
  | { readonly kind: 'wait'; readonly ms: number };

/** An agent at work: what it is there for, its ordinary turns, a fault it may have, and what that is called. */
export type OrdinaryAgent = {
  readonly goal: string;
  readonly turn: (random: Random, number: number) => readonly Act[];
  readonly fault: (random: Random, at: number) => readonly Act[];
  /** Acts after which the fault is found, and the kinds of drift it may be called. */
  readonly within: number;
  readonly kinds: readonly string[];
};

/** Numbers that look random and are the same every time. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  below(limit: number): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((this.#state / 2 ** 32) * limit);
  }

  pick(list: readonly string[]): string {
    return list[this.below(list.length)] ?? '';
  }

  words(count: number): string {
    return Array.from({ length: count }, () => this.pick(WORDS)).join(' ');
  }
}

const WORDS =
  'amber basin cedar delta ember fjord grove harbor iris jasper kelp lotus maple nectar onyx pearl quartz river sage tulip umber violet willow yarrow zephyr anchor bridge castle dune engine forest garden hill island jacket kettle ladder market needle orchard pencil quiver ribbon saddle temple valley window copper silver bronze velvet cotton leather marble granite'.split(
    ' ',
  );
const NAMES = 'Ann Bob Carla Dmitri Eve Farid Grace Hugo Ines Jonas Kim Lea Mo Nina Omar Pia'.split(' ');

const call = (name: string, input: object, text: string): Act => ({ kind: 'call', name, input, text });
const fail = (name: string, input: object, text: string): Act => ({ kind: 'call', name, input, text, isError: true });
const say = (text: string): Act => ({ kind: 'say', text });
const hear = (text: string): Act => ({ kind: 'hear', text });
const wait = (ms: number): Act => ({ kind: 'wait', ms });
const json = (value: object): string => JSON.stringify(value);

export const AGENTS: Readonly<Record<string, OrdinaryAgent>> = {
  'a sorter of mail': {
    goal: 'Sort the incoming mail into folders and flag what is urgent',
    turn: (random, number) => {
      if (number % 17 === 5) return [call('inbox_next', {}, json({ empty: true })), wait(20_000)];
      const folder = random.pick(['invoice', 'newsletter', 'question', 'complaint', 'spam']);
      const from = `${random.pick(NAMES).toLowerCase()}@${random.pick(WORDS)}.example`;
      const mail = { id: number, from, subject: `${folder} ${random.words(3)}`, body: random.words(20) };
      return [call('inbox_next', {}, json(mail)), call('move', { mail: number, folder }, 'ok'), wait(4000)];
    },
    fault: () => [
      call('inbox_next', {}, json({ id: 7, from: 'ann@harbor.example', subject: 'the lease of the garden' })),
      call('move', { mail: 7, folder: 'question' }, 'ok'),
    ],
    within: 10,
    kinds: ['loop'],
  },
  'a trader that watches a price': {
    goal: 'Watch the price of ACME and buy below 95',
    turn: (random, number) => {
      if (number % 60 >= 45)
        return [call('get_price', { symbol: 'ACME' }, json({ price: 100, market: 'closed' })), wait(60_000)];
      const price = Math.round(10_000 + Math.sin(number / 7) * 600 + random.below(100)) / 100;
      const buy =
        price < 95
          ? [call('place_order', { symbol: 'ACME', side: 'buy', limit: price }, `order ${number} accepted`)]
          : [];
      return [call('get_price', { symbol: 'ACME' }, json({ price, market: 'open' })), ...buy, wait(15_000)];
    },
    fault: () => [
      call(
        'place_order',
        { symbol: 'ACME', side: 'buy', limit: 94 },
        'The order was accepted and waits at the exchange.',
      ),
    ],
    within: 5,
    kinds: ['loop'],
  },
  'a mender of builds': {
    goal: 'Make the failing build of each branch pass',
    turn: (random, number) => {
      const [branch, path] = [`feature/${random.pick(WORDS)}-${number}`, `src/${random.pick(WORDS)}.ts`];
      const tries = 1 + random.below(4);
      const mend = (at: number) => [
        call('edit_file', { path, find: random.words(4), replace: random.words(5) }, 'ok'),
        at < tries
          ? fail('run_tests', { branch }, `1 failed: ${path} expected ${random.below(99)} to equal ${random.below(99)}`)
          : call('run_tests', { branch }, '42 passed'),
      ];
      return [
        call('ci_log', { branch }, `FAIL ${path} > ${random.words(3)}: expected ${random.below(90)}`),
        call('read_file', { path }, `export function ${random.pick(WORDS)}() { ${random.words(25)} }`),
        ...Array.from({ length: tries }, (_, at) => mend(at + 1)).flat(),
        call('push', { branch }, 'pushed'),
      ];
    },
    fault: () => [fail('run_tests', { branch: 'feature/amber' }, '1 failed: src/amber.ts expected 3 to equal 4')],
    within: 5,
    kinds: ['loop', 'error'],
  },
  'a scraper of pages': {
    goal: 'Collect all products of the catalogue with their prices',
    turn: (random, number) => {
      const page = (number % 12) + 1;
      const url = `https://shop.example/${WORDS[Math.floor(number / 12) % WORDS.length]}?page=${page}`;
      const failed = random.below(9) === 0 ? [fail('http_get', { url }, '503 Service Unavailable')] : [];
      if (page === 12) return [...failed, call('http_get', { url }, json({ items: [] }))];
      const items = Array.from({ length: 4 }, () => ({ name: random.words(2), price: random.below(900) / 10 }));
      return [
        ...failed,
        call('http_get', { url }, json({ items })),
        call('save_rows', { table: 'products', items }, '4 rows inserted'),
        wait(800),
      ];
    },
    fault: () => [
      call(
        'http_get',
        { url: 'https://shop.example/amber?page=3' },
        json({ items: [{ name: 'amber basin', price: 3 }] }),
      ),
    ],
    within: 5,
    kinds: ['loop'],
  },
  'a clerk that answers customers': {
    goal: 'Answer the customers of the shop about their orders',
    turn: (random, number) => {
      const who = random.pick(NAMES);
      const order = {
        id: 5000 + number,
        status: random.pick(['shipped', 'packed', 'delivered']),
        carrier: random.pick(['DHL', 'UPS']),
      };
      return [
        hear(
          random.pick([`Hi, this is ${who}. Where is my order ${order.id}?`, `Can I still return order ${order.id}?`]),
        ),
        call(
          'find_policy',
          { topic: 'returns' },
          'Orders ship within two days. Returns are free for 30 days in the box.',
        ),
        call('get_order', { id: order.id }, json(order)),
        say(
          `Thank you for waiting. Your order ${order.id} is ${order.status}. Is there anything else I can do for you?`,
        ),
        wait(30_000),
      ];
    },
    fault: () => [
      call(
        'find_policy',
        { topic: 'returns' },
        'Orders ship within two days. Returns are free for 30 days in the box.',
      ),
      call('get_order', { id: 77 }, json({ id: 77, status: 'packed', carrier: 'DHL' })),
    ],
    within: 10,
    kinds: ['loop'],
  },
  'a batch job with equal records': {
    goal: 'Process all records of the import',
    turn: (_, number) => [
      call('process_record', { record: number, values: { type: 'ping', amount: 0 } }, json({ status: 'ok' })),
    ],
    fault: (_, at) => [
      fail('process_record', { record: 9000 + at, values: { type: 'ping' } }, 'the table is locked by another job'),
    ],
    within: 6,
    kinds: ['error', 'loop'],
  },
  'a monitor that reports every minute': {
    goal: 'Report every minute whether all services are up',
    turn: () => [call('check_services', {}, json({ web: 'up', db: 'up', queue: 'up' })), say('All ok.'), wait(60_000)],
    fault: (random, at) => [
      say(`Caravans carried porcelain over the mountains in ${700 + at}, with ${random.words(6)}.`),
    ],
    within: 42,
    kinds: ['goal', 'stall'],
  },
  'a translator of like paragraphs': {
    goal: 'Translate the contract into German paragraph by paragraph',
    turn: (random, number) => {
      const [annex, days] = [(number % 20) + 1, 10 + random.below(50)];
      return [
        call(
          'read_paragraph',
          { number },
          `The ${random.pick(['supplier', 'seller'])} shall deliver the goods of annex ${annex} to the buyer within ${days} days after the signature.`,
        ),
        call(
          'write_paragraph',
          {
            number,
            text: `Der ${random.pick(['Lieferant', 'Verkäufer'])} liefert die Waren der Anlage ${annex} innerhalb von ${days} Tagen nach Unterzeichnung an den Käufer.`,
          },
          'saved',
        ),
      ];
    },
    fault: () => [say('Der Lieferant liefert die Waren an den Käufer. '.repeat(14))],
    within: 2,
    kinds: ['loop'],
  },
  'a typist of forms': {
    goal: 'Enter the paper forms into the registry',
    turn: (random) => [
      call('click', { element: '#new-record' }, 'The form is empty.'),
      ...['name', 'street', 'city'].map((field) => call('type', { element: `#${field}`, text: random.words(2) }, 'ok')),
      call('click', { element: '#save' }, 'Saved.'),
    ],
    fault: (random) => [
      call(
        'search_registry',
        { query: random.pick(['amber basin', 'basin amber', 'amber']) },
        'No entry of the registry was found for that.',
      ),
    ],
    within: 17,
    kinds: ['stall', 'loop'],
  },
  'a reviewer of code': {
    goal: 'Review the pull requests of the team',
    turn: (random, number) => {
      const look = () => {
        const file = `src/${random.pick(WORDS)}.ts`;
        const text = random.pick([
          'Consider extracting this into a function of its own.',
          'Please add a test for this branch.',
          'This name does not say what it holds.',
        ]);
        return [
          call('get_diff', { pull: number, file }, `@@ -${random.below(200)} @@ ${random.words(15)}`),
          call('comment', { pull: number, file, line: random.below(200), text }, 'ok'),
        ];
      };
      return [
        ...look(),
        ...look(),
        call('submit_review', { pull: number, verdict: random.pick(['approve', 'comment']) }, 'ok'),
        say(`Reviewed pull request ${number}.`),
      ];
    },
    fault: () => [say('I will now look at the pull request of the team and then write my review of it.')],
    within: 8,
    kinds: ['stall', 'loop'],
  },
};

/** Acts as the events that a watch is shown, without the time that passes. */
export function eventsOf(act: Act): readonly DriftEvent[] {
  if (act.kind === 'wait') return [];
  if (act.kind !== 'call') {
    const speaker = act.kind === 'hear' ? { role: 'user', agent: 'customer' } : {};
    return [{ kind: 'message', ...speaker, text: act.text }];
  }
  const { name, input, text, isError = false } = act;
  return [
    { kind: 'call', name, input },
    { kind: 'result', name, text, isError },
  ];
}
