/** Makes the demo in a database file. */
export function makeDemo(path: string): Promise<void>;
