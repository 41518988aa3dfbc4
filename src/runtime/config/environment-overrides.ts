import { type ZodType, z } from 'zod';
import { describeValue, isRecord } from '../../core/options.ts';
import { formatSuggestion, suggest } from '../../core/suggestion.ts';
import { configSchema } from './config-schema.ts';
import type { Problem } from './problem.ts';
import { unwrap } from './schema-problems.ts';
import { yamlSource } from './yaml-source.ts';

/** The environment, as an argument: libraries do not read it themselves. */
export type Environment = { readonly [name: string]: string | undefined };

type Override = { readonly path: readonly string[]; readonly isList: boolean };

const PREFIX = 'SAVESTATE_';

/** Every setting that a variable can override, by the variable's name: `SAVESTATE_WORKFLOW_CHECKPOINTING_ENABLED`. */
export const OVERRIDES: ReadonlyMap<string, Override> = new Map(
  leavesOf(configSchema, []).map((leaf) => [variableOf(leaf.path.join('.')), leaf]),
);

/** The variable for the setting at a path. */
export function variableOf(path: string): string {
  return `${PREFIX}${path.replaceAll(/\W+/g, '_').toUpperCase()}`;
}

/** What belongs to us: other variables with the prefix are somebody else's. */
const OWN = new RegExp(`^${PREFIX}(${Object.keys(configSchema.shape).join('|').toUpperCase()})_`);

/** Puts variables over the settings of a file; a variable that is no setting is a problem, not ignored. */
export function applyEnvironment(
  data: object,
  env: Environment,
): { readonly data: object; readonly problems: Problem[] } {
  const problems: Problem[] = [];
  const copy = structuredClone(data) as Record<string, unknown>;
  for (const [name, text] of Object.entries(env)) {
    if (text === undefined || !OWN.test(name)) continue;
    const override = OVERRIDES.get(name);
    if (override === undefined) {
      const suggestion = suggest(name, OVERRIDES.keys());
      problems.push({ path: name, message: `is not a setting.${formatSuggestion(suggestion)}` });
    } else if (override.isList) {
      const items = text.split(',').map((item) => item.trim());
      put(
        copy,
        override.path,
        items.filter((item) => item !== ''),
      );
    } else problems.push(...putYaml(copy, override.path, { name, text }));
  }
  return { data: copy, problems };
}

function putYaml(
  copy: Record<string, unknown>,
  path: readonly string[],
  { name, text }: { readonly name: string; readonly text: string },
): Problem[] {
  const { data, problems } = yamlSource(text);
  if (problems.length === 0) put(copy, path, data);
  return problems.map(({ message }) => ({ path: name, message: `${message} Found ${describeValue(text)}.` }));
}

function put(target: Record<string, unknown>, [key = '', ...rest]: readonly string[], value: unknown): void {
  if (rest.length > 0 && !isRecord(target[key])) target[key] = {};
  if (rest.length === 0) target[key] = value;
  else put(target[key] as Record<string, unknown>, rest, value);
}

function leavesOf(schema: ZodType, path: readonly string[]): Override[] {
  const inner = unwrap(schema);
  if (inner instanceof z.ZodRecord) return [];
  if (!(inner instanceof z.ZodObject)) return [{ path, isList: inner instanceof z.ZodArray }];
  return Object.entries(inner.shape as Record<string, ZodType>).flatMap(([key, part]) =>
    leavesOf(part, [...path, key]),
  );
}
