import { onTestFinished, TestRunner } from 'vitest';

type Cleanup = () => Promise<void>;

const atEndOfFile: Cleanup[] = [];

/** Cleans up when the test ends, or with the file if no test is running. */
export function cleanUpLater(cleanup: Cleanup): void {
  if (TestRunner.getCurrentTest() === undefined) atEndOfFile.push(cleanup);
  else onTestFinished(cleanup);
}

/** Ends what was made outside of tests. */
export async function cleanUpFile(): Promise<void> {
  for (const cleanup of atEndOfFile.splice(0).toReversed()) await cleanup();
}
