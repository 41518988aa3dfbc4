export { createMcp } from './mcp-server.ts';
