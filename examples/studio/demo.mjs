// Records a few sessions to look at: a team that drifts and is repaired on a branch, a refund that waits for a person, and some that ended.
// node examples/studio/demo.mjs [file], then: savestate studio --storage <file>
import { pathToFileURL } from 'node:url';
import { CheckpointManager, SqliteCheckpointStorage } from 'savestate';
import { parseWorkflow, WorkflowExecutor } from 'savestate/workflow';

const VENDORS = ['Acme', 'Borealis', 'Cobalt', 'Delta', 'Ember', 'Fjord'];
/** What each page says, how the table got it, and what the critic checked: no two alike. */
const FOUND = {
  Acme: ['starter plan, billed yearly, taxes apart', 'First row of the second half.', 'Matches the invoice of March.'],
  Borealis: ['public sector tariff, minimum ten users', 'Sorted by amount now.', 'Cited from the tender itself.'],
  Cobalt: ['team edition, price held until June', 'New file with four columns.', 'The page is dated last week, good.'],
  Delta: ['business tier including support hours', 'Currency column added.', 'Two resellers quote the same.'],
  Ember: ['volume discount begins at fifty licences', 'Footnote about discounts below.', 'Archive copy agrees.'],
  Fjord: ['flat fee, storage counted separately', 'Totals computed for each quarter.', 'Signed datasheet attached.'],
};
const TEAM = {
  planner: { model: 'gpt-4o', system: 'Plan in small steps and hand over.' },
  researcher: {
    model: 'gpt-4o',
    system: 'Search until you have found every price the planner asks for. Cite each page.',
  },
  coder: { model: 'gpt-4o-mini', system: 'Keep prices.csv.' },
  critic: { model: 'gpt-4o', system: 'Accept only what has a source.' },
};

/** Makes the demo in a database file. */
export async function makeDemo(path) {
  const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path, durability: 'process' }) });
  try {
    await recordReport(manager);
    await recordRefund(manager);
    for (const [n, name] of ['support-chat-8841', 'release-notes-4.2', 'lisbon-trip'].entries())
      await recordChat(manager, name, 6 + n * 5);
  } finally {
    await manager.close();
  }
}

/** Writes a conversation down: a checkpoint a message, the calls it took as recorded steps. */
class Recorder {
  constructor(session, state) {
    this.session = session;
    this.state = state;
  }

  async say(name, text, { calls = [], status = 'running', reason } = {}) {
    for (const { name: tool, input, output } of calls) await this.session.step(tool, () => output, { input });
    this.state = { ...this.state, messages: [...this.state.messages, this.#said(name, text, calls)] };
    await this.session.save(this.state, {
      trigger: 'message_appended',
      status,
      metadata: { speaker: name, messages: this.state.messages.length },
      ...(reason !== undefined && { reason }),
    });
  }

  /** A message, and what a model used for it: all that was said before goes in. */
  #said(name, text, calls) {
    if (name === 'user') return said(name, text);
    const usage = { input_tokens: 400 + this.state.messages.length * 220, output_tokens: 24 + text.length };
    const model = this.state.agents?.[name]?.model ?? 'gpt-4o-mini';
    return { ...said(name, text, calls), usage_metadata: usage, response_metadata: { model_name: model } };
  }

  /** One vendor: looked up, said, written down, checked. */
  async research(vendor, price) {
    const [page, table, check] = FOUND[vendor];
    const found = `${vendor}: list price ${price} EUR a seat, ${page}`;
    await this.say('researcher', '', { calls: [call('web_search', { query: `${vendor} list price` }, found)] });
    await this.say('researcher', `${vendor} asks ${price} EUR: ${page}.`);
    this.state = { ...this.state, prices: { ...this.state.prices, [vendor]: price } };
    const write = call('write_file', { path: 'prices.csv', vendor, price }, `${table.length} bytes written`);
    await this.say('coder', table, { calls: [write] });
    await this.say('critic', check);
  }
}

const call = (name, input, output) => ({ name, input, output });
const said = (name, text, calls = []) => ({
  role: name === 'user' ? 'user' : 'assistant',
  name,
  content: calls.length === 0 ? text : [...(text === '' ? [] : [{ type: 'text', text }]), ...calls.flatMap(partsOf)],
});
const partsOf = ({ name: toolName, input, output }, n) => [
  { type: 'tool-call', toolCallId: `call_${n}`, toolName, input },
  { type: 'tool-result', toolCallId: `call_${n}`, toolName, output: { type: 'text', value: output } },
];

const ROUNDS_OF_LOOP = 14;

async function recordReport(manager) {
  const session = await manager.session('pricing-report');
  const team = new Recorder(session, {
    goal: 'Compare list prices of six vendors',
    agents: TEAM,
    prices: {},
    messages: [],
  });
  await team.say('user', 'Compare list prices of six vendors. Cite each page.');
  await team.say('planner', 'Plan: outline, find prices vendor by vendor, build a table, check sources.');
  for (const [n, vendor] of VENDORS.slice(2).entries()) await team.research(vendor, 40 + n * 7);
  await manager.tag(session.head.id, 'outline-done');
  await team.say('planner', 'Four of six vendors are done. Find the list prices of Acme and Borealis next.');
  const forkAt = session.head.id;
  const useless = call(
    'web_search',
    { query: 'vendor list price 2026 pdf' },
    '10 results: How to read price lists; Vendor portal (sign in)',
  );
  for (let n = 0; n < ROUNDS_OF_LOOP; n++)
    await (n % 2 === 0
      ? team.say('researcher', '', { calls: [useless] })
      : team.say('researcher', 'Neither page names a price. I will search again.'));
  await team.say('critic', 'No progress for a long time. Stopped.', {
    status: 'failed',
    reason: 'The same search 7 times',
  });
  await repair(manager, forkAt);
  const edit = (old) => ({
    ...old,
    agents: { ...old.agents, researcher: { ...old.agents.researcher, model: 'gpt-4o-mini' } },
  });
  await manager.fork(forkAt, { branch: 'cheaper-model', author: 'Ann', reason: 'Is gpt-4o-mini enough?', edit });
}

async function repair(manager, at) {
  const system = 'Search at most twice with the same words. If nothing new comes back, ask for a price export.';
  const edit = (old) => ({ ...old, agents: { ...old.agents, researcher: { ...old.agents.researcher, system } } });
  await manager.fork(at, { branch: 'repair-search', author: 'Ann', reason: 'The researcher repeats one search', edit });
  const session = await manager.session('pricing-report', { branch: 'repair-search' });
  const team = new Recorder(session, session.state);
  for (const [n, vendor] of VENDORS.slice(0, 2).entries()) await team.research(vendor, 61 + n * 9);
  await team.say('coder', 'The report has six vendors.', { calls: [call('run_tests', {}, '14 of 14 pass')] });
  await team.say('critic', 'Draft accepted.', { status: 'completed' });
}

async function recordChat(manager, name, rounds) {
  const chat = new Recorder(await manager.session(name), { messages: [] });
  for (let n = 1; n <= rounds; n++) {
    await chat.say('user', `Question ${n}: what about part ${n}?`);
    await chat.say('assistant', `Part ${n} is done; here is what I found about it.`, {
      status: n === rounds ? 'completed' : 'running',
    });
  }
}

const REFUND = `
workflow: { name: refund, checkpoint: true }
steps:
  - id: order
    function: look_up
  - id: approve
    approval: { message: "Refund {{ steps.order.output.amount }} EUR for order 4711?" }
  - id: pay
    function: pay_back
`;

async function recordRefund(manager) {
  const registry = { functions: { look_up: async () => ({ amount: 120 }), pay_back: async () => 'paid' } };
  const executor = new WorkflowExecutor({ manager, registry });
  await executor.run({ workflow: parseWorkflow(REFUND, { source: 'refund.yaml' }), sessionId: 'refund-4711' });
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const path = process.argv[2] ?? 'demo.db';
  await makeDemo(path);
  console.log(`The demo is in ${path}. Look at it: savestate studio --storage ${path}`);
}
