/** The person in front of a command: what it prints, and on what. */
export interface Terminal {
  /** Whether notes appear on a screen that can be overwritten. */
  readonly isScreen: boolean;
  readonly columns: number;
  /** Milliseconds, for rates. */
  now(): number;
  /** The answer of the command. */
  print(text: string): void;
  /** What goes on meanwhile, and errors. */
  note(text: string): void;
}

/** The terminal of a process. */
export function createTerminal({ stdout, stderr }: Pick<NodeJS.Process, 'stdout' | 'stderr'>): Terminal {
  return {
    isScreen: stderr.isTTY === true,
    columns: stderr.columns ?? 80,
    now: () => performance.now(),
    print: (text) => void stdout.write(text),
    note: (text) => void stderr.write(text),
  };
}
