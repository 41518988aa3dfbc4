import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import * as is from '../../core/options.ts';
import { checkOptions, checkValue, describeValue, isRecord, type OptionChecks } from '../../core/options.ts';
import { name } from '../../core/record/id.ts';
import { formatSuggestion, suggest } from '../../core/suggestion.ts';
import { nameModel, overrideModel } from '../agent/agent-options.ts';
import type { AgentRegistry } from '../agent/agent-registry.ts';
import { PERSON } from '../agent/chat-message.ts';
import { checkMembers } from '../run/agent-team.ts';
import type { Difference } from '../run/differences.ts';
import { createEndRules, END_RULES } from './chat-end.ts';
import type { ChatSettings } from './chat-state.ts';
import type { GroupChatOptions } from './group-chat.ts';
import { findCandidates } from './speaker-selection.ts';

const DEFAULTS = {
  managerName: 'chat_manager',
  speakerSelection: 'auto',
  allowedTransitions: null,
  allowRepeatSpeaker: false,
  sendIntroductions: false,
  seed: 1,
  maxRounds: 20,
} as const;

/** What the settings of a conversation accept, as options of a group. */
export const SETTINGS = {
  managerName: name,
  // Checked with the names it may hold.
  speakerSelection: is.anything,
  allowedTransitions: is.recordOf(is.listOf(is.string)),
  allowRepeatSpeaker: is.flag,
  sendIntroductions: is.flag,
  seed: is.accepts('a whole number', Number.isSafeInteger),
  maxRounds: is.wholeFrom(1),
  end: is.options(END_RULES),
} as const;

/** What may be changed of a conversation that has begun. */
const CHANGES: OptionChecks<ChatSettings> = {
  ...SETTINGS,
  managerName: () => 'cannot be changed: the agents keep what they heard under this name',
  allowedTransitions: is.orNull(SETTINGS.allowedTransitions),
  // Checked where it is read.
  selectorConfig: is.orNull(is.record),
  selectorModelId: is.orNull(is.filledString),
};

/** Settings with what is changed on purpose. Throws if the group cannot be led by them. */
export function changeSettings(
  was: ChatSettings,
  changes: Partial<ChatSettings>,
  agents: readonly string[],
): ChatSettings {
  checkOptions(changes, CHANGES, 'overrides.settings');
  const { end, selectorConfig, selectorModelId, ...given } = withoutUndefined(changes);
  const { llmConfig, modelId } = overrideModel({ llmConfig: selectorConfig, modelId: selectorModelId });
  const settings = {
    ...was,
    ...given,
    ...(end !== undefined && { end: createEndRules(end) }),
    ...(llmConfig !== undefined && { selectorConfig: llmConfig }),
    ...(modelId !== undefined && { selectorModelId: modelId }),
  };
  checkSeed(given, settings);
  checkLeading(settings, agents);
  return settings;
}

/** Only chance begins somewhere. */
function checkSeed(
  { seed }: { readonly seed?: number },
  { speakerSelection }: Pick<ChatSettings, 'speakerSelection'>,
): void {
  if (seed === undefined || speakerSelection === 'random') return;
  throw new InvalidInputError(
    'A seed has an effect with speakerSelection "random" only. Leave it out, or let chance choose the speakers.',
    { details: { option: 'seed' } },
  );
}

/** The settings of a conversation, where the options do not say otherwise as by default. */
export function createSettings(options: GroupChatOptions, registry: AgentRegistry): ChatSettings {
  const { agents: _, registry: __, selector, end = {}, ...given } = options;
  const { speakerSelection = DEFAULTS.speakerSelection } = given;
  if (selector !== undefined && speakerSelection !== 'auto')
    throw new InvalidInputError(
      'A selector chooses speakers with speakerSelection "auto" only. Leave out one of them.',
      { details: { option: 'selector' } },
    );
  checkSeed(withoutUndefined(given), { speakerSelection });
  const { llmConfig: selectorConfig, modelId: selectorModelId } = nameModel(selector, registry);
  return { ...DEFAULTS, ...withoutUndefined(given), end: createEndRules(end), selectorConfig, selectorModelId };
}

const SELECTIONS = ['auto', 'round_robin', 'random', 'manual'];

/** Throws if a group cannot be led by its settings: before anything is saved or paid for. */
export function checkSettings(settings: ChatSettings, agents: readonly string[], registry: AgentRegistry): void {
  checkLeading(settings, agents);
  const [missing] = findMissingCode(settings, registry);
  if (missing === undefined) return;
  const option = { predicate: 'end.predicate', selector: 'speakerSelection' }[missing.path.split('.').at(-1) ?? ''];
  throw new InvalidInputError(
    `${missing.text} Add it to the registry of the group.`,
    option === undefined ? {} : { details: { option } },
  );
}

/** Throws if nobody could lead a group by its settings, whatever is registered. */
function checkLeading(settings: ChatSettings, agents: readonly string[]): void {
  checkMembers(agents, settings.managerName);
  checkTransitions(settings, agents);
  checkSelection(settings.speakerSelection);
  if (settings.speakerSelection === 'auto' && needsSelector(settings, agents)) {
    throw new InvalidInputError(
      'Speakers are selected by a model (speakerSelection "auto", the default), and the group has none. Give it a selector, or speakerSelection "round_robin".',
      { details: { option: 'speakerSelection' } },
    );
  }
}

function checkSelection(selection: unknown): void {
  if (isRecord(selection)) {
    checkValue(selection.selector, is.filledString, 'The selector of speakerSelection');
    return;
  }
  if (typeof selection === 'string' && SELECTIONS.includes(selection)) return;
  const suggestion = formatSuggestion(typeof selection === 'string' ? suggest(selection, SELECTIONS) : undefined);
  throw new InvalidInputError(
    `speakerSelection must be one of ${SELECTIONS.join(', ')}, or { selector: 'name' }; found ${describeValue(selection)}.${suggestion}`,
    { details: { option: 'speakerSelection' } },
  );
}

/** Whether there is a choice after somebody has spoken. */
function needsSelector(settings: ChatSettings, agents: readonly string[]): boolean {
  const hasModel = settings.selectorConfig !== null || settings.selectorModelId !== null;
  return !hasModel && [PERSON, ...agents].some((last) => findCandidates(settings, agents, last).length > 1);
}

function checkTransitions({ allowedTransitions }: ChatSettings, agents: readonly string[]): void {
  const known = [...agents, PERSON];
  for (const name of Object.entries(allowedTransitions ?? {}).flatMap(([from, to]) => [from, ...to])) {
    if (!known.includes(name))
      throw new InvalidInputError(
        `The allowed transitions name "${name}", who is not in the group: ${known.join(', ')}.`,
        { details: { option: 'allowedTransitions' } },
      );
  }
}

/** Code that a group names and nobody registered. */
export function findMissingCode(settings: ChatSettings, registry: AgentRegistry): Difference[] {
  const { speakerSelection, selectorModelId, end } = settings;
  const selector = typeof speakerSelection === 'object' ? speakerSelection.selector : undefined;
  const names = [
    { what: 'predicate', name: end.predicate, isKnown: (name: string) => registry.predicate(name) !== undefined },
    { what: 'selector', name: selector, isKnown: (name: string) => registry.selector(name) !== undefined },
    { what: 'model', name: selectorModelId ?? undefined, isKnown: (name: string) => registry.hasModel(name) },
  ];
  return names.flatMap(({ what, name, isKnown }) => {
    if (name === undefined || isKnown(name)) return [];
    const text = `The ${what} "${name}" of the group is not registered.`;
    return [{ path: `$.chat.settings.${what}`, kind: 'missing', text }];
  });
}
