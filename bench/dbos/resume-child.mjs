import { SIDES } from './sides.mjs';

/** Runs until the step that a process dies in; a second process prints what its first new step is, and ends. */
const { name, url, count, diesAt } = JSON.parse(process.argv[2]);
const { run } = await SIDES[name](url);
await run('resumed', count, (at) => {
  if (diesAt !== undefined && at === diesAt) process.kill(process.pid, 'SIGKILL');
  if (diesAt === undefined) process.stdout.write(`${at}\n`, () => process.exit(0));
  return at;
});
