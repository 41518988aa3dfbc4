import { suggest } from '../../core/suggestion.ts';

const PREFIX = 'SAVESTATE_';

/** The variables that the command line reads, or sets for what it starts, without their prefix. */
const KNOWN = [
  'AUTHOR',
  'BISECT_TARGET',
  'CODE_RUN',
  'IDEMPOTENCY_KEY',
  'KEYS',
  'KEY_COMMAND',
  'KEY_FILE',
  'MEMORY',
  'PAGER',
  'SESSION',
  'STORAGE',
  'TEAM',
  'TENANT',
  'TOKEN',
  'USER',
] as const;

/** What the variables begin with that stand for settings, whose rest is checked with the settings. */
const SETTINGS = ['WORKFLOW', 'FLEET', 'AGENTS'] as const;

/** In a short word two changes make another word. */
const LONG_CHARS = 6;

/** Names variables that are probably meant for the command line, and that nothing reads. Others with the prefix are somebody else's. */
export function describeSlips(env: Readonly<Record<string, string | undefined>>): string[] {
  return Object.keys(env).flatMap((name) => {
    const meant = name.startsWith(PREFIX) ? findMeant(name.slice(PREFIX.length)) : undefined;
    return meant === undefined ? [] : [`${name} has no effect. Did you mean ${PREFIX}${meant}?`];
  });
}

function findMeant(given: string): string | undefined {
  const [first = '', ...rest] = given.split('_');
  if ([...KNOWN, ...SETTINGS].some((word) => word === given) || SETTINGS.some((word) => word === first))
    return undefined;
  const near = (word: string, known: readonly string[]): string | undefined =>
    suggest(word, known, word.length < LONG_CHARS ? 1 : 2);
  const setting = rest.length === 0 ? undefined : near(first, SETTINGS);
  if (setting !== undefined) return [setting, ...rest].join('_');
  return near(given, KNOWN) ?? KNOWN.find((word) => word === first);
}
