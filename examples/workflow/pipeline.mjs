import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseWorkflow } from 'savestate/workflow';

const SOURCES = {
  north: '  it rained and rained  ',
  east: 'a mild and windy day, said everyone ',
  south: ' sun ',
  west: '  fog until noon, then nothing of note',
};

const read = (source) => parseWorkflow(readFileSync(join(import.meta.dirname, source), 'utf8'), { source });

export const workflow = read('pipeline.yaml');
export const input = { sources: Object.keys(SOURCES) };

/** The code behind the steps. `outside` is told of every call, as the outside world would be; `paceMs` is what each takes. */
export function createRegistry({ outside, paceMs = 0 }) {
  const call = (work) => async (value, context) => {
    outside(context);
    if (paceMs > 0) await sleep(paceMs);
    return work(value, context);
  };
  return {
    workflows: { cleaning: read('cleaning.yaml') },
    functions: {
      read_source: call((name) => SOURCES[name]),
      trim: call((text) => text.trim()),
      join: call((texts) => texts.join('. ')),
      count_words: call((text) => text.split(/\s+/).length),
      find_longest: call((text) => text.split('. ').toSorted((a, b) => b.length - a.length)[0]),
      fetch_appendix: call(() => {
        throw new Error('There is no appendix.');
      }),
      shorten: call(({ text, previous }) => (previous ?? text).split(' ').slice(0, -1).join(' ')),
      publish: call((report) => ({ ...report, published: true })),
    },
    agents: {
      Critic: {
        reply: call((text, { attempt }) => {
          if (attempt === 1) throw new Error('The model is overloaded.');
          return text.includes('rain') ? 'gloomy' : 'bright';
        }),
      },
    },
  };
}
