// What the fleet says when there is no model to ask: every answer follows from the request alone, so a resumed fleet goes on as before.
import { scriptedModel } from 'savestate/testing';

/** `thinking` is told of every request, as a provider would be. */
export function createOfflineModel(thinking = () => undefined) {
  const answer = (request) => {
    thinking();
    const role = Object.keys(ROLES).find((beginning) => request.system.startsWith(beginning));
    return ROLES[role](read(request));
  };
  return scriptedModel(answer, {
    id: 'offline-researchers',
    prices: { inputPerMillionUsd: 1, outputPerMillionUsd: 4 },
  });
}

/** A request as the roles need it: what was said, what is asked, and what the last tool answered. */
function read({ messages }) {
  const said = messages.map(({ content }) => String(content));
  const last = messages.at(-1);
  return {
    said,
    question: said.at(-1),
    instruction: said.findLast((text) => text.startsWith('orchestrator: ')) ?? '',
    result: last.role === 'tool' ? last.content[0].output.value : undefined,
    call: (name, input) => ({ toolCalls: [{ id: `call_${messages.length}`, name, input }] }),
    finding: (said.findLast((text) => text.startsWith('analyst: ')) ?? '').replace('analyst: ', ''),
    count: (name) => said.filter((text) => text.startsWith(`${name}: `)).length,
  };
}

const ROLES = {
  'You lead': lead,
  'You know the library': readPages,
  'You compare': compare,
  'You write': ({ result, call, finding }) =>
    result === undefined ? call('write_report', { text: finding }) : `The report: ${result}`,
};

/** What the orchestrator answers, by words of the question. */
const LEDGER_ANSWERS = [
  ['list what we know', '1. GIVEN: there is a library.\n2. TO LOOK UP: the lengths of the rivers.'],
  ['We are not making progress', '1. GIVEN: the lengths are in the library, one page for each river.'],
  ['Write a short plan', 'Plan A: ask the analyst.'],
  ['write a new one', 'The analyst knows no lengths. Plan B: read every page, compare, write a report.'],
  ['Write the whole plan again', 'Plan B, as you wished: read every page, compare, write a report.'],
];

function lead(request) {
  const [, known] = LEDGER_ANSWERS.find(([words]) => request.question.includes(words)) ?? [];
  if (known !== undefined) return known;
  return request.question.includes('Write the answer to the user') ? request.finding : assess(request);
}

/** Who goes on, by what was said. */
function assess({ said, question, count }) {
  if (!said.some((text) => text.includes('Plan B')))
    return ledger({ progress: count('analyst') === 0, speaker: 'analyst', say: 'How long are the rivers?' });
  const pages = said.find((text) => text.startsWith('librarian: The pages are'))?.match(/\w+(?=\.txt)/g) ?? [];
  const page = pages[count('librarian') - 1];
  if (pages.length === 0) return ledger({ speaker: 'librarian', say: 'List the pages.' });
  // Once it answers with words only, as models do, and has to be told.
  if (page === pages[1] && !question.startsWith('That could not be used')) return 'Let me think about it.';
  if (page !== undefined) return ledger({ speaker: 'librarian', say: `Read the page ${page}.` });
  if (count('analyst') === 0) return ledger({ speaker: 'analyst', say: 'Compare the longest with the shortest.' });
  return ledger({ satisfied: count('writer') > 0, speaker: 'writer', say: 'Write the report.' });
}

function ledger({ satisfied = false, progress = true, speaker, say }) {
  const entry = (answer) => ({ reason: 'by what was said', answer });
  return JSON.stringify({
    is_request_satisfied: entry(satisfied),
    is_in_loop: entry(false),
    is_progress_being_made: entry(progress),
    next_speaker: entry(speaker),
    instruction_or_question: entry(say),
  });
}

function readPages({ instruction, result, call }) {
  const page = instruction.match(/Read the page (\w+)\./)?.[1];
  if (result === undefined) return page === undefined ? call('list_pages', {}) : call('read_page', { page });
  return page === undefined ? `The pages are: ${result}` : `${page}: ${result}`;
}

function compare({ said, instruction, result, call }) {
  if (instruction.includes('How long')) return 'I do not know how long they are.';
  const rivers = said
    .flatMap((text) => [...text.matchAll(/(\w+) is (\d+) km/g)])
    .map(([, name, km]) => ({ name, km: Number(km) }))
    .toSorted((a, b) => a.km - b.km);
  const [shortest, longest] = [rivers[0], rivers.at(-1)];
  if (result === undefined) return call('subtract', { from: longest.km, subtrahend: shortest.km });
  return `The ${longest.name} is the longest river, ${result} km longer than the ${shortest.name}.`;
}
