/** What `npm run bench -- ...` says: which of the rows, and how many rounds; or what is to be said instead, with the exit code. */
export function readWords(words, rows) {
  const ids = Object.keys(rows);
  const usage = `${USAGE}\nRows: ${ids.join(', ')}\n`;
  if (words.includes('--help') || words.includes('-h')) return { said: usage, exitCode: 0 };
  const isKnown = (word) => (word.startsWith('-') ? FLAGS.includes(word) : ids.some((id) => id.includes(word)));
  const unknown = words.filter((word) => !isKnown(word));
  if (unknown.length > 0) return { said: `The bench knows no ${unknown.join(', ')}.\n${usage}`, exitCode: 2 };
  const named = words.filter((word) => !word.startsWith('-'));
  const isReported = words.includes('--report');
  if (isReported && named.length > 0)
    return { said: `A report is of all rows: --report without ${named.join(', ')}.\n${usage}`, exitCode: 2 };
  const isWanted = (id) =>
    named.length > 0 ? named.some((word) => id.includes(word)) : isReported || rows[id].peers === undefined;
  return { isQuick: words.includes('--quick'), isReported, wanted: ids.filter(isWanted) };
}

const FLAGS = ['--quick', '--report'];

const USAGE = `npm run bench                    everything that needs nothing installed, a few minutes on a quiet machine
npm run bench -- row3 row5       only rows whose id contains one of the words
npm run bench -- langgraph dbos  beside the official savers and DBOS, which it installs first: half an hour
npm run bench -- --quick         a tenth of the rounds
npm run bench -- --report        all of these, written to docs/BENCHMARKS.md with plots`;
