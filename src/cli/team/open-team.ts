import { dirname, resolve } from 'node:path';
import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { AgentRegistry } from '../../runtime/agent/agent-registry.ts';
import type { GroupChat } from '../../runtime/chat/group-chat.ts';
import { createTeam, parseTeam } from '../../runtime/chat/team-config.ts';
import type { Fleet } from '../../runtime/fleet/fleet.ts';
import type { CommandInput, Context } from '../base/command.ts';
import { readConfigured, resolveFile } from '../place/read-text.ts';
import { withSettings } from './apply-settings.ts';
import { importModule, type Module, requireBeside } from './import-module.ts';

/** The configured team: the code that restored conversations need, and how a new conversation is made. */
export type Team =
  | { readonly kind: 'chat'; readonly registry: AgentRegistry; readonly create: () => GroupChat }
  | { readonly kind: 'fleet'; readonly registry: AgentRegistry; readonly create: () => Fleet };

/** Which team and which code, if not those that savestate.yaml names, and whether its agents may run code here. */
export type TeamChoice = {
  readonly file?: string | undefined;
  readonly registry?: string | undefined;
  readonly allowsCode?: boolean;
};

/** What the flags of a command say of the team. */
export function readTeamChoice(input: CommandInput): TeamChoice {
  return { file: input.text('team'), registry: input.text('registry'), allowsCode: input.flag('allowCode') };
}

/** The team that `--team`, SAVESTATE_TEAM or savestate.yaml names: a `team.yaml`, or a module. */
export async function openTeam(context: Context, choice: TeamChoice): Promise<Team> {
  const { path: project = '', config = {} } = (await context.config()) ?? {};
  const place = { here: context.folder, project: dirname(project) };
  const path = pick(place, choice.file ?? (context.env.SAVESTATE_TEAM || undefined), config.team);
  if (path === undefined)
    throw new NotFoundError(
      'There is no team here. Describe one in team.yaml and name it in savestate.yaml ("team: team.yaml"), or give --team <file>.',
    );
  const parts = { env: context.env, registry: pick(place, choice.registry, config.registry) };
  const team = await (/\.ya?ml$/.test(path) ? readTeam(path, parts) : importTeam(path, parts));
  if (choice.allowsCode === true) team.registry.allowCode(context.folder);
  const settings = await context.settings();
  return settings === undefined ? team : withSettings(team, settings);
}

/** What the person named, relative to where they are, else what the project names, relative to its file. */
function pick(
  { here, project }: { readonly here: string; readonly project: string },
  named: string | undefined,
  configured: string | undefined,
): string | undefined {
  if (named !== undefined) return resolveFile(here, named);
  return configured === undefined ? undefined : resolveFile(project, configured);
}

type TeamParts = { readonly env: Context['env']; readonly registry: string | undefined };

async function readTeam(path: string, { env, registry: named }: TeamParts): Promise<Team> {
  const config = parseTeam(readConfigured(path, 'team file'), { source: path });
  const code = named ?? (config.registry && resolveBeside(path, config.registry));
  const registry = openRegistry(code === undefined ? undefined : await importModule(code), env);
  return { kind: 'chat', registry, create: () => createTeam(config, registry) };
}

function resolveBeside(path: string, named: string): string {
  requireBeside(path, resolve(dirname(path), named));
  return resolveFile(dirname(path), named);
}

async function importTeam(path: string, { env, registry: named }: TeamParts): Promise<Team> {
  const module = await importModule(path);
  const registry = openRegistry(named === undefined ? module : await importModule(named), env);
  const { createTeam: createChat, createFleet } = module;
  if (typeof createChat === 'function')
    return { kind: 'chat', registry, create: () => createChat({ env, registry }) as GroupChat };
  if (typeof createFleet === 'function')
    return { kind: 'fleet', registry, create: () => createFleet({ env, registry }) as Fleet };
  throw new InvalidInputError(
    `${path} exports neither a function "createTeam", which returns a GroupChat, nor "createFleet", which returns a Fleet.`,
    { details: { path } },
  );
}

/** A registry of a module is an AgentRegistry, or what one is made of; keys come from the environment of the command line. */
function openRegistry(module: Module | undefined, env: Context['env']): AgentRegistry {
  const given = module?.registry;
  if (given === undefined) return new AgentRegistry({ env });
  if (typeof given !== 'object' || given === null)
    throw new InvalidInputError('The export "registry" must be an AgentRegistry, or the options for one.');
  if ('modelFor' in given) return given as AgentRegistry;
  // Workflows may find their code in the same export.
  const { functions: _, workflows: __, ...options }: { functions?: unknown; workflows?: unknown } = given;
  return new AgentRegistry({ env, ...options });
}
