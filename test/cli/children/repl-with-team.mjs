// A REPL with a scripted team, as a program of its own: it repeats prompts and saves each as a round.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

const [, , dist, session] = process.argv;
const load = (path) => import(pathToFileURL(join(dist, path)).href);
const { Context } = await load('cli/base/context.js');
const { PROGRAM } = await load('cli/program.js');
const { createTerminal } = await load('cli/terminal/terminal.js');
const { runRepl } = await load('cli/repl/run-repl.js');

const globals = {
  json: false,
  color: false,
  pager: false,
  quiet: false,
  yes: false,
  input: true,
  progress: 'auto',
  session,
};
const context = new Context({
  program: PROGRAM,
  terminal: createTerminal(process, { color: false }),
  globals,
  env: process.env,
  folder: process.cwd(),
  signal: new AbortController().signal,
});

const team = {
  async send(prompt, { sessionId, from, signal, print }) {
    const { manager } = await context.open();
    if (from !== undefined) await manager.rewind(from);
    const live = await manager.session(sessionId);
    const state = live.state;
    state.messages.push({ role: 'user', content: prompt });
    if (prompt === 'think long') {
      print('thinking...\n');
      await sleep(60_000, undefined, { signal });
    }
    await live.save(state);
    await live.close();
    print(`heard "${prompt}" as message ${state.messages.length}\n`);
  },
};

process.exitCode = await runRepl(context, { team });
await context.close();
