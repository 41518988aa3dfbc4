// What the travellers say. Every answer follows from the request alone, so a resumed run goes on as before.
// In the environment: DELAY_MS is how long an answer takes, FAIL lets the model fail, and CRASH_AT_REPLY=3 kills the process when the
// conversation has three messages.
import { scriptedModel } from 'savestate/testing';

const STEPS = ['walk up to the castle', 'take tram 28', 'eat pastries in Belém', 'watch the sun set by the river'];
const DOUBTS = [
  'The hill is steep. Is there a lift?',
  'At noon it is full. Go before nine.',
  'Belém is far: by train?',
];
const DELAY_MS = Number(process.env.DELAY_MS ?? 0);

const model = scriptedModel(answer, { id: 'offline-travellers' });

/** What team.yaml and checkpoints name. */
export const registry = { models: { [model.id]: model } };

function answer({ system, messages }) {
  if (messages.length === Number(process.env.CRASH_AT_REPLY)) process.kill(process.pid, 'SIGKILL');
  if (process.env.FAIL !== undefined) return { status: 400, message: 'the model has a cold' };
  const said = messages.filter(({ role }) => role === 'assistant').length;
  const text = system.startsWith('You plan') ? plan(messages, said) : check(messages, said, system);
  return DELAY_MS === 0 ? text : { text, delayMs: DELAY_MS };
}

/** Whoever wants to rest gets a day with fewer steps. */
function plan(messages, said) {
  const wish = messages.findLast(({ role, content }) => role === 'user' && !String(content).startsWith('critic:'));
  const isSlow = /slow|rest|tired/i.test(String(wish?.content));
  const step = STEPS[said % STEPS.length];
  return isSlow ? `Step ${said + 1}: sleep long, then ${step}.` : `Step ${said + 1}: ${step}.`;
}

/** A strict critic never agrees. */
function check(messages, said, system) {
  if (system.includes('strict')) return 'That is too much for one day. Start again.';
  if (said >= 3) return 'That is a full day. TERMINATE';
  const last = String(messages.at(-1)?.content);
  return last.includes('sleep long') ? 'Good, nobody will be tired.' : DOUBTS[said];
}
