import { SavestateError } from './errors.ts';

/**
 * The outcome of a public call. An error of ours that comes out of a queue, or from deep inside a state, does not name the line that made the
 * call: then its stack goes on with the callers of this.
 */
export async function withCallSite<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof SavestateError) addCallers(error);
    throw error;
  }
}

function addCallers(error: SavestateError): void {
  const here: { stack?: string } = {};
  Error.captureStackTrace(here, addCallers);
  const [, , ...lines] = here.stack?.split('\n') ?? []; // after the name, and withCallSite itself
  const callers = lines.filter((line) => !line.includes('node:internal'));
  if (callers.some((line) => error.stack?.includes(line))) return;
  error.stack = [error.stack, ...callers].join('\n');
}
