import { types } from 'node:util';
import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import { formatCount } from '../../core/format-count.ts';
import * as is from '../../core/options.ts';
import { checkOptions, type OptionChecks } from '../../core/options.ts';
import { LinearPattern } from '../../core/pattern/linear-pattern.ts';
import type { AgentRegistry } from '../agent/agent-registry.ts';
import type { ChatMessage } from '../agent/chat-message.ts';

/** What ends a conversation, besides having run its rounds; plain data. */
export type EndRules = {
  /** Texts that end it wherever they stand in a message. */
  readonly signals: readonly string[];
  /** A regular expression that ends it. */
  readonly pattern?: { readonly source: string; readonly flags?: string };
  /** The name of a registered predicate. */
  readonly predicate?: string;
  readonly maxTokens?: number;
  readonly maxCostUsd?: number;
};

/** Why a conversation ended. */
export type EndReason =
  | 'signal'
  | 'predicate'
  | 'max_rounds'
  | 'no_next_speaker'
  | 'no_reply'
  | 'exit'
  | 'token_budget'
  | 'cost_budget';

/** How a conversation ended; recorded in its last checkpoint. */
export type ChatEnd = {
  readonly reason: EndReason;
  /** The words that ended it. */
  readonly signal?: string;
  /** In a sentence. */
  readonly detail: string;
};

/** The signals of a conversation that names none. */
const DEFAULT_SIGNALS: readonly string[] = ['SOLUTION_FOUND', 'TERMINATE'];

type EndView = {
  readonly rules: EndRules;
  readonly maxRounds: number;
  readonly round: number;
  readonly last: ChatMessage;
  readonly totalTokens: number;
  readonly costUsd: number;
  /** The words of the last message do not count: someone decided that the conversation goes on. */
  readonly isOverruled: boolean;
};

/** What the last message and the totals say about the end; undefined if the conversation goes on. Depends on nothing else. */
export function findEnd(view: EndView, registry: AgentRegistry): ChatEnd | undefined {
  return (view.isOverruled ? undefined : findSignal(view, registry)) ?? findLimit(view);
}

function findSignal({ rules, last }: EndView, registry: AgentRegistry): ChatEnd | undefined {
  const span = rules.pattern && toPattern(rules.pattern).find(last.content);
  const found = rules.signals.find((text) => last.content.includes(text));
  const signal = found ?? (span && last.content.slice(span.start, span.end));
  if (signal !== undefined) return { reason: 'signal', signal, detail: `${last.name} said "${signal}".` };
  if (rules.predicate === undefined || !holds(rules.predicate, last, registry)) return undefined;
  return { reason: 'predicate', detail: `The predicate "${rules.predicate}" holds for what ${last.name} said.` };
}

function toPattern(pattern: NonNullable<EndRules['pattern']>): LinearPattern {
  return new LinearPattern(pattern, 'end.pattern');
}

function holds(name: string, message: ChatMessage, registry: AgentRegistry): boolean {
  const predicate = registry.predicate(name);
  const fail = (problem: string): never => {
    throw new InvalidInputError(problem, { details: { predicate: name } });
  };
  if (predicate === undefined)
    return fail(`The conversation ends by the predicate "${name}", which is not registered.`);
  const found: unknown = predicate(message);
  if (types.isPromise(found)) return fail(`The predicate "${name}" must not be async: it must return true or false.`);
  return Boolean(found);
}

/** What is used up of what a conversation may use. */
export function findLimit(view: Omit<EndView, 'last' | 'isOverruled'>): ChatEnd | undefined {
  const { rules, maxRounds, round, totalTokens, costUsd } = view;
  if (rules.maxTokens !== undefined && totalTokens >= rules.maxTokens)
    return { reason: 'token_budget', detail: `${totalTokens} tokens were used; the limit is ${rules.maxTokens}.` };
  if (rules.maxCostUsd !== undefined && costUsd >= rules.maxCostUsd)
    return { reason: 'cost_budget', detail: `${costUsd} USD were spent; the limit is ${rules.maxCostUsd}.` };
  if (round >= maxRounds)
    return {
      reason: 'max_rounds',
      detail: `${round} of ${formatCount(maxRounds, 'round')} ${maxRounds === 1 ? 'was' : 'were'} run.`,
    };
  return undefined;
}

/** Rules as they are given: a pattern may be the source alone. */
export type GivenEndRules = Partial<Omit<EndRules, 'pattern'>> & {
  readonly pattern?: string | NonNullable<EndRules['pattern']>;
};

const limit = is.wholeFrom(1);

export const END_RULES: OptionChecks<GivenEndRules> = {
  signals: is.listOf(is.string),
  pattern: (value) => (typeof value === 'string' || value instanceof RegExp ? undefined : PATTERN(value)),
  predicate: is.filledString,
  maxTokens: limit,
  maxCostUsd: is.positive,
};

const PATTERN = is.options({ source: { required: is.string }, flags: is.string });

/** The rules of a conversation, complete and checked before anything runs. */
export function createEndRules(given: GivenEndRules): EndRules {
  checkOptions(given, END_RULES, 'end');
  const { pattern, ...rest } = withoutUndefined(given);
  const rules = { signals: DEFAULT_SIGNALS, ...rest };
  if (rules.signals.includes(''))
    throw new InvalidInputError('An empty text cannot be an end signal: it is in every message.');
  if (pattern === undefined) return rules;
  const { source, flags = '' } = typeof pattern === 'string' ? { source: pattern } : pattern;
  const plain = flags === '' ? { source } : { source, flags }; // also of a regular expression
  if (toPattern(plain).test(''))
    throw new InvalidInputError(`The pattern /${source}/ fits an empty text: it is in every message.`, {
      details: { option: 'end.pattern' },
    });
  return { ...rules, pattern: plain };
}

/** A text without the words that would end a conversation. */
export function stripSignals(content: string, { signals, pattern }: EndRules): string {
  const withoutSignals = signals.reduce((text, signal) => text.replaceAll(signal, ''), content);
  const stripped = pattern === undefined ? withoutSignals : toPattern(pattern).replace(withoutSignals, '');
  return stripped === content ? content : stripped.trim();
}
