import { Buffer } from 'node:buffer';
import { ADJECTIVES, ADVERBS, CODE_NAMES, NAMES, NOUNS, PLACES, SENTENCES, VERBS } from './vocabulary.mjs';

const SHORT_BYTES = 600;
const LONG_BYTES = 4096;
const LONG_EVERY = 5;
const START_MS = Date.UTC(2026, 2, 3, 8);

/** The messages of the first seed, which nearly all rows begin with: to write them takes longer than to save them. Not on the heap, which a row measures. */
const written = new Map();

/** One message: about 600 bytes as JSON, every fifth 4 KB. The same seed and index always give the same message. */
export function createMessage(index, seed = 1) {
  if (seed !== 1) return writeMessage(index, seed);
  if (!written.has(index)) {
    const { content, ...rest } = writeMessage(index, seed);
    written.set(index, { rest, bytes: Buffer.from(content) });
  }
  const { rest, bytes } = written.get(index);
  const { id, role, createdAt } = rest;
  return { id, role, content: bytes.toString(), createdAt };
}

function writeMessage(index, seed) {
  const random = createRandom(index, seed);
  const isLong = index % LONG_EVERY === LONG_EVERY - 1;
  const targetBytes = isLong ? LONG_BYTES : SHORT_BYTES;
  const message = {
    id: `msg_${random.hex(20)}`,
    role: isLong ? 'tool' : index % 2 === 0 ? 'user' : 'assistant',
    content: '',
    createdAt: new Date(START_MS + index * 47_000 + random.below(40_000)).toISOString(),
  };
  const contentBytes = targetBytes - Buffer.byteLength(JSON.stringify(message));
  message.content = flat(fitJson(writeContent(random, message.role, contentBytes), contentBytes));
  return message;
}

export function createMessages(count, seed = 1, from = 0) {
  return Array.from({ length: count }, (_, at) => createMessage(from + at, seed));
}

export function jsonBytes(value) {
  return Buffer.byteLength(JSON.stringify(value));
}

/** The distinct messages of a state, each as JSON of its own. */
export function messageBytes(messages) {
  return messages.reduce((sum, message) => sum + jsonBytes(message), 0);
}

/** The state all rows save: a conversation and a little around it. */
export function createState(messages) {
  return {
    agent: 'researcher',
    status: 'running',
    turn: messages.length,
    plan: { goal: 'answer', steps: 3 },
    messages,
  };
}

/** A text built by concatenation is a rope, and the first one to read it pays for joining it. */
function flat(text) {
  return Buffer.from(text).toString();
}

/** Cuts a text so that its JSON form has at most this many bytes more than that of an empty text. */
function fitJson(text, limitBytes) {
  let fitted = text.slice(0, limitBytes);
  for (;;) {
    const excess = Buffer.byteLength(JSON.stringify(fitted)) - 2 - limitBytes;
    if (excess <= 0) return fitted.replace(/[\ud800-\udbff]$/, '');
    fitted = fitted.slice(0, -Math.max(1, excess >> 1));
  }
}

function writeContent(random, role, minChars) {
  let text = '';
  while (text.length < minChars) text += `${text === '' ? '' : '\n\n'}${writeBlock(random, role)}`;
  return text;
}

function writeBlock(random, role) {
  const dice = random.below(100);
  if (role === 'user') return dice < 90 ? writeProse(random) : writeList(random);
  if (role === 'assistant')
    return pickBlock(dice, [
      [60, writeProse],
      [80, writeList],
      [92, writeCode],
      [100, writeTable],
    ])(random);
  return pickBlock(dice, [
    [45, writeResult],
    [60, writeLog],
    [75, writeCode],
    [100, writeProse],
  ])(random);
}

function pickBlock(dice, blocks) {
  return blocks.find(([below]) => dice < below)[1];
}

const repeat = (count, make) => Array.from({ length: count }, make);

function writeProse(random) {
  return repeat(2 + random.below(4), () => writeSentence(random)).join(' ');
}

function writeList(random) {
  const items = repeat(
    3 + random.below(3),
    (_, at) => `${at + 1}. **${random.pick(NOUNS)}**: ${writeSentence(random)}`,
  );
  return `## ${capitalise(random.pick(ADJECTIVES))} ${random.pick(NOUNS)}\n\n${items.join('\n')}`;
}

function writeTable(random) {
  const rows = repeat(
    4,
    () =>
      `| ${random.pick(NOUNS)} | ${random.below(9000) / 10} | ${random.pick(ADJECTIVES)} | ${random.pick(PLACES)} |`,
  );
  return `| ${random.pick(NOUNS)} | value | state | where |\n|---|---|---|---|\n${rows.join('\n')}`;
}

function writeCode(random) {
  const [name, first, second, third] = repeat(4, () => random.pick(CODE_NAMES));
  const noun = random.pick(NOUNS);
  return [
    '```ts',
    `// ${writeSentence(random)}`,
    `export async function ${name}(${noun}: ${capitalise(random.pick(NOUNS))}, limit = ${random.below(500)}) {`,
    `  const ${first} = await ${second}(${noun}.${random.pick(NOUNS)}, { ${third}: ${random.below(90_000)} });`,
    `  if (${first}.${random.pick(NOUNS)} > limit) throw new Error('${writeSentence(random).replaceAll("'", '')}');`,
    `  return ${first}.${random.pick(VERBS)}((${noun[0]}) => ${noun[0]}.${random.pick(NOUNS)} ?? '${random.hex(6)}');`,
    '}',
    '```',
  ].join('\n');
}

function writeResult(random) {
  const hits = repeat(2 + random.below(3), () => ({
    id: random.hex(12),
    title: `${capitalise(random.pick(ADJECTIVES))} ${random.pick(NOUNS)} in ${random.pick(PLACES)}`,
    url: `https://${random.pick(NOUNS)}-${random.pick(NOUNS)}.example/${random.pick(NOUNS)}/${random.below(99_999)}`,
    score: random.below(10_000) / 10_000,
    author: random.pick(NAMES),
    snippet: writeSentence(random),
    at: new Date(START_MS - random.below(1e9) * 60).toISOString(),
  }));
  return JSON.stringify({
    tool: random.pick(CODE_NAMES),
    elapsedMs: random.below(4000),
    total: random.below(900),
    hits,
  });
}

function writeLog(random) {
  return repeat(4 + random.below(4), () => {
    const level = random.pick(['INFO', 'INFO', 'WARN', 'DEBUG', 'ERROR']);
    return `${writeTime(random)}:${random.below(60)}.${random.below(1000)} ${level} ${random.pick(CODE_NAMES)} ${random.pick(NOUNS)}=${random.hex(8)} ${random.pick(VERBS)} ${random.pick(NOUNS)} in ${random.below(9000)} ms`;
  }).join('\n');
}

/** Symbols as people and models type them: rare in a sentence, so that most messages are plain ASCII. */
const TAILS = [' ✓', ' 🙂', ' (日本語で)', ' — good', ' ≈ ok', ' …'];
const TAIL_PERCENT = 2;

function writeSentence(random) {
  const sentence = random.pick(SENTENCES).replace(/#|\b[NVPGADWLCT](?=s?\b)s?/g, (slot) => fill(slot, random));
  return capitalise(sentence) + (random.below(100) < TAIL_PERCENT ? random.pick(TAILS) : '');
}

function fill(slot, random) {
  const isPlural = slot.endsWith('s');
  switch (slot[0]) {
    case '#':
      return String(random.below(random.pick([10, 100, 1000, 20_000])));
    case 'N':
      return random.pick(NOUNS) + (isPlural ? 's' : '');
    case 'V':
      return random.pick(VERBS) + (isPlural ? 's' : '');
    case 'P':
      return `${random.pick(VERBS).replace(/e$/, '')}ed`;
    case 'G':
      return `${random.pick(VERBS).replace(/e$/, '')}ing`;
    default:
      return fillName(slot[0], random);
  }
}

function fillName(slot, random) {
  const lists = { A: ADJECTIVES, D: ADVERBS, W: NAMES, L: PLACES, C: CODE_NAMES };
  return slot === 'T' ? writeTime(random) : random.pick(lists[slot]);
}

function writeTime(random) {
  return `${random.below(24)}:${String(random.below(60)).padStart(2, '0')}`;
}

function capitalise(text) {
  return text[0].toUpperCase() + text.slice(1);
}

/** mulberry32, started from the index and the seed. */
function createRandom(index, seed) {
  let state = Math.imul(index + 1, 0x9e3779b1) ^ Math.imul(seed + 7, 0x85ebca6b);
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  const below = (limit) => Math.floor(next() * limit);
  const pick = (list) => list[below(list.length)];
  const hex = (chars) => repeat(chars, () => below(16).toString(16)).join('');
  return { below, pick, hex };
}
