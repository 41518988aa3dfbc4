import { InvalidInputError } from '../../core/errors.ts';
import { isRecord } from '../../core/options.ts';
import { formatPath } from '../../core/path.ts';
import { formatSuggestion, suggest } from '../../core/suggestion.ts';
import { type Fields, fieldsOf } from '../revision/transcript.ts';

type Path = readonly (string | number)[];

/** What an edit may add to each part of a team's state; every other key is there from the beginning. */
const MESSAGE = ['name', 'content', 'turn', 'code', 'edited'];
const ADDED = {
  team: ['works'],
  record: ['answers', 'reopenings', 'turn', 'roundLimit', 'roundsFrom'],
  settings: ['speakerSelection'],
  end: ['signals', 'pattern', 'predicate', 'maxTokens', 'maxCostUsd'],
  agent: ['fields', 'custom'],
  runtime: [],
} as const;

/**
 * Refuses keys that an edit adds to the state of a team, and that nothing would read: a misspelled field changes nothing. What was there
 * before stays, so that states of older versions and of subclasses can be edited.
 */
export function checkEditKeys(key: string, before: Fields, after: Fields): void {
  const [was, is] = [fieldsOf(before[key]), fieldsOf(after[key])];
  checkKeys({ path: [], added: ADDED.team }, before, after);
  checkKeys({ path: [key], added: ADDED.record }, was, is);
  checkKeys({ path: [key, 'settings'], added: ADDED.settings }, was.settings, is.settings);
  checkKeys(
    { path: [key, 'settings', 'end'], added: ADDED.end },
    fieldsOf(was.settings).end,
    fieldsOf(is.settings).end,
  );
  checkMessages([key, 'messages'], was.messages, is.messages);
  const agents = fieldsOf(before.agents);
  checkKeys({ path: ['agents'], added: namesIn(after.order) }, agents, after.agents);
  for (const [name, agent] of Object.entries(fieldsOf(after.agents))) checkAgent(name, agents[name], agent);
  checkSpeakers(key, before, after);
}

function checkAgent(name: string, before: unknown, after: unknown): void {
  if (!isRecord(before) || !isRecord(after)) return; // a new one, which is checked as a whole when it is restored
  checkKeys({ path: ['agents', name], added: ADDED.agent }, before, after);
  checkKeys({ path: ['agents', name, 'runtime'], added: ADDED.runtime }, before.runtime, after.runtime);
  for (const [partner, said] of Object.entries(fieldsOf(after.histories)))
    checkMessages(['agents', name, 'histories', partner], fieldsOf(before.histories)[partner], said);
}

function checkMessages(path: Path, before: unknown, after: unknown): void {
  const old: readonly unknown[] = Array.isArray(before) ? before : [];
  if (Array.isArray(after))
    for (const [at, message] of after.entries())
      checkKeys({ path: [...path, at], added: MESSAGE }, old[at] ?? {}, message);
}

/** Whoever speaks is in the team, or spoke before: the person, the manager. */
function checkSpeakers(key: string, before: Fields, after: Fields): void {
  const said = (state: Fields) => [fieldsOf(state[key]).messages].flat().map((message) => fieldsOf(message).name);
  const { managerName, orchestratorName } = fieldsOf(fieldsOf(after[key]).settings);
  const known = [
    ...namesIn(after.order),
    ...said(before),
    fieldsOf(after[key]).initiator,
    managerName,
    orchestratorName,
  ];
  const names = [...known.filter((name) => typeof name === 'string'), 'user'];
  said(after).forEach((name, at) => {
    if (typeof name === 'string' && !names.includes(name))
      throw refuse([key, 'messages', at, 'name'], `${JSON.stringify(name)} is nobody in it`, suggest(name, names));
  });
}

function checkKeys({ path, added }: { path: Path; added: readonly string[] }, before: unknown, after: unknown): void {
  if (!isRecord(before) || !isRecord(after)) return;
  const known = [...new Set([...Object.keys(before), ...added])];
  const found = Object.keys(after).find((key) => !known.includes(key));
  if (found !== undefined) throw refuse([...path, found], 'nothing reads this field', suggest(found, known));
}

function refuse(path: Path, problem: string, suggestion: string | undefined): InvalidInputError {
  const at = formatPath(path);
  const meant = formatSuggestion(suggestion);
  return new InvalidInputError(`The edit of the conversation is refused at ${at}: ${problem}.${meant}`, {
    details: { path: at, ...(suggestion !== undefined && { suggestion }) },
  });
}

function namesIn(order: unknown): string[] {
  return Array.isArray(order) ? order.filter((name) => typeof name === 'string') : [];
}
