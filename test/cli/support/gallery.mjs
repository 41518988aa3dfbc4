// What the golden screens show: sessions of every kind, made by the built package, with wide characters and long words.
// node test/cli/support/gallery.mjs <folder>
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { AIMessage, HumanMessage, ToolMessage } from '@langchain/core/messages';
import { END, interrupt, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { CheckpointManager, SqliteCheckpointStorage } from 'savestate';
import {
  AgentRegistry,
  CheckpointingGroupChatManager,
  CheckpointRestorer,
  defineTool,
  GroupChat,
  StandardAgent,
} from 'savestate/agents';
import { Fleet, FleetRunner } from 'savestate/fleet';
import { SavestateSaver } from 'savestate/langgraph';
import { AgentLoop } from 'savestate/loop';
import { scriptedModel } from 'savestate/testing';
import { parseWorkflow, WorkflowExecutor } from 'savestate/workflow';
import { z } from 'zod';

/** Makes the gallery in a folder. */
export async function makeGallery(folder) {
  mkdirSync(join(folder, '.savestate'), { recursive: true });
  writeFileSync(join(folder, 'savestate.yaml'), 'storage: .savestate/checkpoints.db\n');
  const storage = new SqliteCheckpointStorage({
    path: join(folder, '.savestate', 'checkpoints.db'),
    durability: 'process',
  });
  const world = createWorld(storage);
  await holdChat(world);
  await askGraph(storage);
  await leadFleet(world);
  await refund(world);
  await loseTheLoop(world);
  await saySmall(world);
  await world.manager.close();
}

/** Time passes when somebody thinks, and chance is the same every time. */
function createWorld(storage) {
  let nowMs = Date.UTC(2026, 0, 31, 9, 30);
  let seed = 7;
  const next = () => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed >> 16;
  };
  const random = (sizeBytes) => Uint8Array.from({ length: sizeBytes }, next);
  const manager = new CheckpointManager({ storage, now: () => nowMs, random });
  const pass = (ms) => {
    nowMs += ms;
  };
  return { manager, pass };
}

const LONG_WORD = 'https://example.com/tickets/'.concat('lisboa-elevador-de-santa-justa-'.repeat(6), 'end');

const LINES = {
  planner: [
    'Morning: walk up to the Castelo de São Jorge 🏰 before it is hot, then down through Alfama for coffee. ☕️',
    `Midday: tram 28 from Graça; tickets are here: ${LONG_WORD}`,
    'Evening: 夕食はカステラ発祥の地で。Dinner near the river, then fado in Mouraria 🎶👩‍👩‍👧‍👦.',
  ],
  critic: [
    'The castle opens at nine, and the walk is steep. Is there a lift?',
    'Tram 28 is crowded at noon.\nTake it at eight, or walk.',
    'A full day. TERMINATE',
  ],
};

function createChat(pass) {
  const model = scriptedModel(
    ({ system, messages }) => {
      pass(11_000);
      const name = system.startsWith('You plan') ? 'planner' : 'critic';
      const said = LINES[name].filter((line) =>
        JSON.stringify(messages).includes(JSON.stringify(line).slice(-12, -1)),
      ).length;
      const asks = name === 'planner' && messages.at(-1).role !== 'tool' && said === 1;
      if (asks)
        return { toolCalls: [{ id: 'call_1', name: 'search', input: { query: 'tram 28 tickets', city: 'Lisboa' } }] };
      const text = LINES[name][said % LINES[name].length];
      return system.includes('slow')
        ? text.replace('Morning', 'Late morning').replace('walk up', 'stroll slowly up')
        : text;
    },
    { id: 'lines' },
  );
  const search = defineTool({
    name: 'search',
    description: 'Finds pages.',
    input: z.object({ query: z.string(), city: z.string() }),
    run: () => `3 pages about tram 28 🚋`,
  });
  const registry = new AgentRegistry({ tools: [search], models: { lines: model } });
  const agent = (name, systemMessage, tools = []) => new StandardAgent({ name, systemMessage, model, tools });
  const chat = new GroupChat({
    agents: [agent('planner', 'You plan trips.', [search]), agent('critic', 'You check plans.')],
    registry,
    speakerSelection: 'round_robin',
    maxRounds: 4,
    end: { signals: ['TERMINATE'] },
  });
  return { chat, registry };
}

async function holdChat({ manager, pass }) {
  const { chat, registry } = createChat(pass);
  const team = new CheckpointingGroupChatManager({ chat, manager, sessionId: 'trip', logs: false });
  await team.prompt('Plan a day in Lisbon 🇵🇹 for four people, please.');
  pass(60_000);
  await team.prompt('And the evening?');
  const { headId } = await manager.fork(
    { sessionId: 'trip', at: 'message 1' },
    {
      branch: 'slow',
      author: 'ann',
      reason: 'nobody wants to run',
      edit: [{ op: 'replace', path: '/agents/planner/systemMessage', value: 'You plan slow trips.' }],
    },
  );
  await new CheckpointRestorer({ manager, registry }).continue(headId, { branch: 'slower', rounds: 3, logs: false });
  await manager.tag({ sessionId: 'trip', at: 'message 3' }, 'good-plan');
}

async function askGraph(storage) {
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('agent', ({ messages }) => {
      const last = messages.at(-1);
      if (last.getType() === 'tool')
        return { messages: [new AIMessage({ id: 'a2', content: `Done: ${last.text} ✅` })] };
      const calls = [{ id: 'call_7', name: 'refund', args: { order: 1042, amount: 39 } }];
      return { messages: [new AIMessage({ id: 'a1', content: '', tool_calls: calls })] };
    })
    .addNode('tools', () => {
      const by = interrupt('Pay 39 EUR back for order 1042?');
      return {
        messages: [
          new ToolMessage({ id: 't1', name: 'refund', tool_call_id: 'call_7', content: `39 EUR paid back (${by})` }),
        ],
      };
    })
    .addEdge(START, 'agent')
    .addConditionalEdges('agent', ({ messages }) => (messages.at(-1).tool_calls.length > 0 ? 'tools' : END), [
      'tools',
      END,
    ])
    .addEdge('tools', 'agent')
    .compile({ checkpointer: new SavestateSaver(storage) });
  const config = { configurable: { thread_id: 'ann' } };
  const { Command } = await import('@langchain/langgraph');
  await graph.invoke(
    {
      messages: [
        new HumanMessage({
          id: 'h1',
          content: '注文1042を返品したいです。 I want my money back for order 1042, the teapot 🫖 leaks.',
        }),
      ],
    },
    config,
  );
  await graph.invoke(new Command({ resume: 'ann agreed' }), config);
}

async function leadFleet({ manager, pass }) {
  const entry = (answer) => ({ reason: 'by what was said', answer });
  const model = scriptedModel(({ system, messages }) => {
    pass(17_000);
    const question = String(messages.at(-1).content);
    const said = messages.map(({ content }) => String(content));
    if (system === 'You look things up.') return 'The Nile has 6,650 km, the Thames 346 km. 尼罗河很长。';
    if (system === 'You compute.') return 'The difference is 6,304 km.';
    if (question.includes('list what we know')) return 'GIVEN: a library about rivers.\nTO LOOK UP: their lengths.';
    if (question.includes('plan')) return '- the librarian looks the lengths up\n- the analyst subtracts';
    if (question.includes('Write the answer to the user')) return 'The Nile beats the Thames by 6,304 km 🌊.';
    const next = ['librarian', 'analyst'].find((name) => !said.some((text) => text.startsWith(`${name}: `)));
    return JSON.stringify({
      is_request_satisfied: entry(next === undefined),
      is_in_loop: entry(false),
      is_progress_being_made: entry(true),
      next_speaker: entry(next ?? 'librarian'),
      instruction_or_question: entry('How long are the longest and the shortest river? Name your source.'),
    });
  });
  const agent = (name, systemMessage) => new StandardAgent({ name, systemMessage, model });
  const agents = [agent('librarian', 'You look things up.'), agent('analyst', 'You compute.')];
  const fleet = new Fleet({ agents, model, registry: new AgentRegistry({ models: { lines: model } }) });
  await new FleetRunner({ fleet, manager, sessionId: 'rivers' }).prompt(
    'Which river is the longest, and by how much does it beat the shortest?',
  );
}

/** A workflow that loops, asks, fails, and pays in the end. */
async function refund({ manager, pass }) {
  const workflow = parseWorkflow(`
workflow: { name: refund, checkpoint: true }
steps:
  - id: order
    function: look_up
  - id: letters
    function: write
    for_each: [pt, 日本語]
    input: { to: "{{ item }}" }
  - id: gift
    function: write
    when: input.isBirthday
  - id: approve
    needs: [letters]
    approval: { message: "Pay {{ steps.order.output.price }} EUR back for the teapot 🫖 that leaks, to ann?" }
  - id: pay
    function: pay
    input: { amount: "{{ steps.order.output.price }}", by: "{{ steps.approve.output.by }}" }
`);
  let isOpen = false;
  const functions = {
    look_up: ({ order }) => ({ order, price: 39, item: '急須 teapot 🫖' }),
    write: ({ to }) => `a letter in ${to}`,
    pay: ({ amount, by }) => {
      if (!isOpen) throw new Error('The bank is closed on Sundays, and so is its fax machine 📠.');
      return { paid: amount, by };
    },
  };
  const executor = new WorkflowExecutor({ manager, registry: { functions } });
  const sessionId = 'refund-1042';
  await executor.run({ workflow, input: { order: 1042, isBirthday: false }, sessionId });
  pass(60_000);
  await executor.answer({ sessionId, requestId: 'approve', answer: 'approve', by: 'ann' });
  await executor.run({ workflow, sessionId });
  isOpen = true;
  await executor.run({ workflow, sessionId });
}

async function loseTheLoop({ manager, pass }) {
  const list = () => {
    pass(20_000);
    return 'inbox: 3 letters';
  };
  const createAgent = () => ({
    tools: { list: { run: list }, pay: { run: ({ order }) => `paid ${order}` } },
    async handle({ body }, turn) {
      if (body.startsWith('order')) {
        await turn.call('pay', { order: body });
        turn.state.context.decisions.push(body);
      } else for (let n = 0; n < 20; n++) await turn.call('list', { folder: 'inbox' });
    },
  });
  const initial = { context: { goals: ['Pay every order once'] } };
  const loop = await AgentLoop.open({
    manager,
    agentId: 'clerk',
    createAgent,
    initial,
    settings: { restoreCooldownMs: 1, maxRestoresPerDay: 1 },
  });
  const over = new Promise((resolve) => {
    loop.on(({ kind }) => kind === 'escalated' && resolve());
  });
  for (const body of ['order 17', 'order 18', '続けて look into the inbox']) await loop.deliver({ id: body, body });
  const ended = loop.run();
  await over;
  await loop.stop();
  await ended;
}

/** Plain states: messages of OpenAI with calls, an empty one, and one that will be damaged. */
async function saySmall({ manager, pass }) {
  const session = await manager.session('サポート-42');
  const messages = [];
  const say = async (message, options = {}) => {
    pass(5_000);
    messages.push(message);
    await session.save(
      { messages, plan: ['greet', 'help'], tone: 'dry and to the point, always' },
      { userId: 'ann', ...options },
    );
  };
  await say({
    role: 'user',
    content:
      '我的包裹在哪里？📦📦📦 Where is my parcel? 👨‍👩‍👧‍👦 is waiting for it since Monday, and nobody tells us anything.',
  });
  await say({
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c1', type: 'function', function: { name: 'track', arguments: '{"parcel":"A-1042"}' } }],
  });
  await say({ role: 'tool', tool_call_id: 'c1', name: 'track', content: 'left the depot' });
  await say(
    { role: 'assistant', content: `It left the depot. Follow it: ${LONG_WORD}` },
    { status: 'completed', note: 'what was sent' },
  );
  await manager.fork(
    { sessionId: 'サポート-42', at: '@' },
    {
      branch: 'kinder',
      author: 'ann',
      edit: (state) => {
        state.messages[3].content = `Good news: it left the depot this morning. Follow it: ${LONG_WORD}`;
        state.tone = 'warm and to the point, always';
      },
    },
  );
  const empty = await manager.session('empty');
  await empty.save({ messages: [] });
  const damaged = await manager.session('damaged');
  for (const content of ['a first thing', 'a second thing', 'a third thing'])
    await damaged.save({ messages: [{ role: 'user', content }] });
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href)
  await makeGallery(process.argv[2]);
