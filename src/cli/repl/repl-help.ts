const ROWS: readonly (readonly [line: string, what: string])[] = [
  ['checkpoints [n]', 'the rounds of this branch, with their times (also: list-checkpoints)'],
  ['resume <checkpoint>', 'go on from there: the next prompt becomes the request'],
  ['back [n]', 'the same, n rounds before'],
  ['run [n]', 'let the team go on, n rounds more (also: continue)'],
  ['new [session]', 'your next prompt begins another session'],
  ['show [rev[:path]]', 'a checkpoint, or a value of its state'],
  ['diff [a] [b]', 'what changed'],
  ['fork [rev] [-b name] [--set path=json]', 'begin a branch'],
  ['branch [name]', 'list the branches, or go on in one'],
  ['log, grep, blame, drift, tag, rewind, undo, stats, verify', 'as on the command line'],
  ['sessions, use <session>', 'list the sessions, go to one'],
  ['where', 'where you are'],
  ['help [command], quit', 'this; end it (also Ctrl-D)'],
];

/** What can be typed in the REPL. */
export function formatHelp(hasTeam: boolean): string {
  const width = Math.max(...ROWS.map(([line]) => line.length));
  const rest = hasTeam
    ? 'Everything else is said to the team.'
    : 'Everything else would be said to the team, but none is configured here.';
  const note = `${rest} A sentence may begin with the name of a command; a slash makes it one for sure: /show main.`;
  return `${ROWS.map(([line, what]) => `  ${line.padEnd(width)}  ${what}\n`).join('')}${note}\nA checkpoint is an id or its beginning, a branch, a tag, @, @~3, #12 or @{2h ago}. Ctrl-C stops what is under way.\n`;
}
