/** What `npm run bench -- ...` says: which rows, and how long. Help and words that fit nothing end the process before anything runs. */
export function readWords(words, ids) {
  if (words.includes('--help') || words.includes('-h')) {
    process.stdout.write(`${USAGE}\nRows: ${ids.join(', ')}\n`);
    process.exit(0);
  }
  const isKnown = (word) => (word.startsWith('-') ? word === '--quick' : ids.some((id) => id.includes(word)));
  const unknown = words.filter((word) => !isKnown(word));
  if (unknown.length > 0) {
    process.stderr.write(`The bench knows no ${unknown.join(', ')}.\n${USAGE}\nRows: ${ids.join(', ')}\n`);
    process.exit(2);
  }
  return { isQuick: words.includes('--quick'), wanted: words.filter((word) => !word.startsWith('-')) };
}

const USAGE = `npm run bench                  everything, a few minutes on a quiet machine
npm run bench -- row3 row5     only rows whose id contains one of the words
npm run bench -- --quick       a tenth of the rounds`;
