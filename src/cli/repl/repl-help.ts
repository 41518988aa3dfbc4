const ROWS: readonly (readonly [line: string, what: string])[] = [
  ['checkpoints [n]', 'the rounds of this branch and what was said in them'],
  ['resume <checkpoint>', 'go on from there: your next prompt begins a branch'],
  ['back [n]', 'the same, n rounds before'],
  ['run [n]', 'let the team go on, n rounds more (also: continue)'],
  ['new [session]', 'your next prompt begins another session'],
  ['sessions, use <session>', 'list the sessions, go to one'],
  ['branch [name]', 'list the branches, go to one'],
  ['fork [rev] [-b name]', 'begin a branch; --set path=json changes it'],
  ['show [rev[:path]]', 'a checkpoint, or a value of its state'],
  ['diff [a] [b]', 'what changed'],
  ['where', 'where you are, and what you are asked'],
  ['help [command], quit', 'this; end it (also Ctrl-D)'],
];

const REST = `Also log, grep, blame, drift, tag, rewind, undo, stats, memory and every other
command of the command line, with or without "savestate" before it.
`;

const FORMS = `A checkpoint is the number of a round, an id or its beginning, a branch, a tag,
@, @~3, #12 or @{2h ago}. Ctrl-C stops what is under way.
`;

/** What can be typed in the REPL. */
export function formatHelp(hasTeam: boolean): string {
  const width = Math.max(...ROWS.map(([line]) => line.length));
  const said = hasTeam
    ? `Everything else is said to the team. A sentence may begin with the name of a
command. A slash makes a line a command for sure: /show main; quotes make it a
sentence: "run tests".
`
    : 'Everything else would be said to the team, but there is none here.\n';
  return `${ROWS.map(([line, what]) => `  ${line.padEnd(width)}  ${what}\n`).join('')}${REST}${said}${FORMS}`;
}
