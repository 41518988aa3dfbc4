import { access, constants, stat } from 'node:fs/promises';
import { delimiter, isAbsolute, join } from 'node:path';

/** How one language is run. */
export type Interpreter = {
  /** What blocks may call the language. */
  readonly names: readonly string[];
  /** Programs to look for, best first; an absolute one is taken as it is. */
  readonly programs: readonly string[];
  readonly extension: (code: string) => string;
  readonly env?: Readonly<Record<string, string>>;
};

const INTERPRETERS: readonly Interpreter[] = [
  {
    names: ['javascript', 'js', 'mjs', 'cjs', 'node', 'nodejs'],
    programs: [process.execPath],
    extension: (code) => (isModule(code) ? '.mjs' : '.cjs'),
  },
  { names: ['sh', 'shell'], programs: ['sh'], extension: () => '.sh' },
  { names: ['bash'], programs: ['bash'], extension: () => '.sh' },
  {
    names: ['python', 'python3', 'py'],
    programs: ['python3', 'python'],
    extension: () => '.py',
    // Without the first, what is printed arrives after the errors that came later.
    env: { PYTHONUNBUFFERED: '1', PYTHONIOENCODING: 'utf-8', PYTHONDONTWRITEBYTECODE: '1' },
  },
];

/** The languages that blocks may name, aliases included. */
export const KNOWN_LANGUAGES: readonly string[] = INTERPRETERS.flatMap(({ names }) => names);

/** How a language is run; undefined if it is not known. */
export function interpreterOf(language: string): Interpreter | undefined {
  return INTERPRETERS.find(({ names }) => names.includes(language.toLowerCase()));
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
