import { appendFileSync } from 'node:fs';

export const TOPIC = 'Plan a move of the office to the third floor';

/** How many messages the whole conversation has. */
export const MESSAGES = 12;

const LINES = [
  'We have to move forty desks by Friday. Let us split the work: furniture, network, people.',
  'Agreed. The network is the risk: the third floor has two switches, and we need three.',
  'Then order one today. Delivery takes two days, so it would be here on Wednesday.',
  'Ordered. I also asked for six spare cables, because the old ones are too short for the new layout.',
  'Good. For the furniture I propose to move one team a day, so that nobody is without a desk for long.',
  'One team a day is five days, and we have four. Let us move the two small teams together.',
  'That works. Design and sales on Tuesday, then support, then engineering last, because of the network.',
  'Engineering on Thursday leaves us Friday as reserve. I will tell the team leads this afternoon.',
  'Please also tell reception, so that deliveries on Wednesday go to the third floor.',
  'Done. Reception wants to know who signs for the switch. I said you do.',
  'Fine, I will be there at nine. Anything else that could go wrong?',
  'The lift. It is serviced on Thursday morning, so engineering moves in the afternoon. I think we are ready.',
];

/** Carries on the conversation until it is over; every message is a recorded step and a checkpoint. `callLog` is a file that counts the real calls. */
export async function converse(session, state, { callLog, onMessage }) {
  while (state.messages.length < MESSAGES) {
    const turn = state.messages.length;
    const text = await session.step('model', () => answer(turn, callLog), {
      input: { turn, last: state.messages.at(-1)?.text ?? '' },
    });
    state.messages.push({ id: `m${turn + 1}`, from: turn % 2 === 0 ? 'Planner' : 'Critic', text });
    const id = await session.save(state, { type: 'auto', trigger: 'message_appended', status: 'RUNNING' });
    await onMessage(turn + 1, id);
  }
}

/** Stands for a call that costs time and money; leaves a line in a file, so that the tour can show how often it was made. */
async function answer(turn, callLog) {
  appendFileSync(callLog, `${turn + 1}\n`);
  return LINES[turn] ?? 'We are done.';
}

/** The state before anyone has spoken. */
export function newState() {
  return { topic: TOPIC, messages: [], facts: { desks: '40', deadline: 'Friday' } };
}
