import type { Command } from '../../base/command.ts';

/** What can be done with a search. */
const ACTIONS: Readonly<Record<string, Command['run']>> = {
  start: async (context, input) => (await import('./bisect/by-hand.ts')).start(context, input),
  good: async (context, input) => (await import('./bisect/by-hand.ts')).mark(context, input, 'good'),
  bad: async (context, input) => (await import('./bisect/by-hand.ts')).mark(context, input, 'bad'),
  skip: async (context, input) => (await import('./bisect/by-hand.ts')).mark(context, input, 'skip'),
  run: async (context, input) => (await import('./bisect/by-test.ts')).run(context, input),
  reset: async (context) => (await import('./bisect/by-hand.ts')).reset(context),
};

/** Finds where it went wrong. */
export const command: Command = {
  arguments: '<action> [words...]',
  options: [
    ['--range <a..b>', 'run: from a good one to a bad one; default: the whole history of the current branch'],
    ['--where <expression>', 'run: bad is where this expression is true, as for log --where'],
    ['--find-good', 'run: look for the first good one instead'],
    ['--scan', 'run: look at every checkpoint, and tell every turn'],
    ['--probe <count>', 'run: look at so many others, to see whether it turns more than once; default 6'],
  ],
  details: `Actions: start [bad] [good], good [rev], bad [rev], skip [rev], run, reset.
It reads and changes nothing, and calls no model: 10,000 checkpoints take 14 looks.
A command after -- gets the state as JSON on its standard input and the id in SAVESTATE_BISECT_TARGET. It exits with
0 if the checkpoint is good, 125 to skip it, 127 to stop, and anything else if it is bad.
Afterwards the revision first-bad names what was found.`,
  examples: [
    [`savestate bisect run --where 'state.plan.length == 0'`, 'the first without a plan'],
    ['savestate bisect run --range v1..@ -- grep -q "refund"', 'the first where a command fails'],
    [`savestate bisect run --scan --where 'status == "FAILED"'`, 'every place where it turns'],
    ['savestate bisect start @ v1', 'by hand: it says what to look at'],
    ['savestate bisect good', 'the one it named is good'],
  ],
  run: (context, input) => input.action('bisect', ACTIONS)(context, input),
};
