import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Below the ports systems give to outgoing connections: there, a client that tries a dead server's port again and again can
 * end up connected to itself, and a port could be taken while its server is down.
 */
const FIRST_PORT = 15_000;
const LAST_PORT = 29_999;
const ATTEMPTS = 50;

/** A port on 127.0.0.1 nobody listens on at this moment. Somebody may take it before it is used, so be ready to ask again. */
export async function findFreePort(): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const port = randomInt(FIRST_PORT, LAST_PORT + 1);
    if (await isFree(port)) return port;
  }
  throw new Error(`None of ${ATTEMPTS} ports tried between ${FIRST_PORT} and ${LAST_PORT} is free.`);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch {
    return false;
  }
  server.close();
  await once(server, 'close');
  return true;
}
