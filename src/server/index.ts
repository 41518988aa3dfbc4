export type { ServedTeam } from './handlers/team-runs.ts';
export { createServer, type Listening, type ListenOptions, type Server } from './server.ts';
export type { ServerOptions } from './server-options.ts';
