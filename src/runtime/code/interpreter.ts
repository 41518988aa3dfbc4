import { access, constants, stat } from 'node:fs/promises';
import { delimiter, isAbsolute, join } from 'node:path';

/** How one language is run. */
export type Interpreter = {
  readonly language: string;
  /** Programs to look for, best first; an absolute one is taken as it is. */
  readonly programs: readonly string[];
  readonly extension: (code: string) => string;
  readonly env?: Readonly<Record<string, string>>;
};

const SHELL: Interpreter = { language: 'sh', programs: ['sh'], extension: () => '.sh' };
const BASH: Interpreter = { language: 'bash', programs: ['bash'], extension: () => '.sh' };
const JAVASCRIPT: Interpreter = {
  language: 'javascript',
  programs: [process.execPath],
  extension: (code) => (isModule(code) ? '.mjs' : '.cjs'),
};
const PYTHON: Interpreter = {
  language: 'python',
  programs: ['python3', 'python'],
  extension: () => '.py',
  // Without the first, what is printed arrives after the errors that came later.
  env: { PYTHONUNBUFFERED: '1', PYTHONIOENCODING: 'utf-8', PYTHONDONTWRITEBYTECODE: '1' },
};

const BY_NAME = new Map<string, Interpreter>([
  ['javascript', JAVASCRIPT],
  ['js', JAVASCRIPT],
  ['mjs', JAVASCRIPT],
  ['cjs', JAVASCRIPT],
  ['node', JAVASCRIPT],
  ['nodejs', JAVASCRIPT],
  ['sh', SHELL],
  ['shell', SHELL],
  ['bash', BASH],
  ['python', PYTHON],
  ['python3', PYTHON],
  ['py', PYTHON],
]);

/** The languages that blocks may name, aliases included. */
export const KNOWN_LANGUAGES: readonly string[] = [...BY_NAME.keys()];

/** How a language is run; undefined if it is not known. */
export function interpreterOf(language: string): Interpreter | undefined {
  return BY_NAME.get(language.toLowerCase());
}

/** What makes a module at the beginning of a line, where no function can be around it. */
const MODULE_ONLY = /^(?:import\s*[\w{*'"]|export\s|await\b|for\s+await\b|(?:const|let|var)\s[^=\n]+=\s*await\b)/m;

/** Everything else runs as a script, which is more lenient. */
function isModule(code: string): boolean {
  return MODULE_ONLY.test(code) || code.includes('import.meta');
}

/** Looks for a program in the folders of a search path; undefined if none of them has it. */
export async function findProgram(programs: readonly string[], searchPath: string): Promise<string | undefined> {
  const folders = searchPath.split(delimiter).filter(isAbsolute);
  for (const program of programs) {
    const candidates = isAbsolute(program) ? [program] : folders.map((folder) => join(folder, program));
    for (const candidate of candidates) if (await isExecutable(candidate)) return candidate;
  }
  return undefined;
}

async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}
