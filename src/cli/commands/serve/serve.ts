import type { Command } from '../../base/command.ts';
import { SERVER_OPTIONS, serve } from '../../server/run-server.ts';

/** Answers over HTTP. */
export const command: Command = {
  arguments: '[storage]',
  options: SERVER_OPTIONS,
  details: `Listens on this machine only, unless you pass --host, and requires a token: SAVESTATE_TOKEN, else a random one, which it prints.
Scripts send it as "Authorization: Bearer <token>". The routes are at /openapi.json and in docs/SERVER.md. Runs until Ctrl-C.`,
  examples: [
    ['savestate serve', 'the storage of this project, on a free port'],
    ['savestate serve agent.db --port 4711 --read-only', 'another one, read only'],
    ['savestate serve --host 0.0.0.0 --allow-host agents.example', 'for others, behind a proxy with TLS'],
  ],
  run: (context, input) => serve(context, input, async () => undefined),
};
