import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseWorkflow } from 'savestate/workflow';

const ORDERS = { 1042: { item: 'teapot', price: 39 }, 1043: { item: 'spoon', price: 4 } };

const source = 'refund.yaml';
export const workflow = parseWorkflow(readFileSync(join(import.meta.dirname, source), 'utf8'), { source });

/** The code behind the steps. `outside` is told of every call, as the outside world would be; `paceMs` is what each takes. */
export function createRegistry({ outside, paceMs = 0 }) {
  const call = (work) => async (input, context) => {
    outside(context);
    if (paceMs > 0) await sleep(paceMs);
    return work(input, context);
  };
  return {
    functions: {
      look_up_order: call((order) => ORDERS[order]),
      // With the key the bank can tell a repeated request from a second one.
      pay_back: call(({ order, amount }, { idempotencyKey }) => ({
        order,
        paid: Number(amount),
        receipt: idempotencyKey,
      })),
      book: call(({ paid }) => `booked ${paid}`),
    },
    // Models are scripts here, so that this runs without a network.
    agents: {
      Clerk: {
        reply: call((prompt, { attempt }) => {
          if (attempt === 1) throw new Error('The model is overloaded.');
          return { text: /for (\d+) broke/.exec(prompt)?.[1] ?? '0' };
        }),
      },
      Writer: { reply: call((prompt) => `Dear customer. ${prompt}`) },
    },
  };
}
