import { InvalidInputError, messageOf } from '../../core/errors.ts';
import { evaluate, isTrue } from '../../core/expression/evaluate.ts';
import { type Expression as Parsed, parseExpression, pathsOf } from '../../core/expression/parse-expression.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { formatSuggestion, suggest } from '../../core/suggestion.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { SAID } from '../../view/checkpoint-output.ts';

const FIELDS = [
  'id',
  'sessionId',
  'branch',
  'sequence',
  'timestamp',
  'stateBytes',
  'type',
  ...SAID,
  'metadata',
] as const;
const NAMES: readonly string[] = [...FIELDS, 'state'];

/** An expression about a checkpoint: the fields of its header by name, and its `state`. */
export class Expression {
  readonly #parsed: Parsed;
  readonly #needsState: boolean;

  constructor(text: string) {
    this.#parsed = parse(text);
    const roots = new Set(pathsOf(this.#parsed).map(([root]) => root));
    for (const root of roots) if (!NAMES.includes(root)) throw unknownName(text, root);
    this.#needsState = roots.has('state');
  }

  /** The state is loaded only if the expression speaks of it. */
  async isTrue(manager: CheckpointManager, checkpoint: Checkpoint): Promise<boolean> {
    const state = this.#needsState ? await manager.load(checkpoint.id) : undefined;
    const values = new Map<string, unknown>(FIELDS.map((field) => [field, checkpoint[field]]));
    return isTrue(evaluate(this.#parsed, (root) => (root === 'state' ? state : values.get(root))));
  }
}

function parse(text: string): Parsed {
  try {
    return parseExpression(text);
  } catch (cause) {
    const problem = messageOf(cause);
    throw new InvalidInputError(`The expression ${problem}`, { cause });
  }
}

function unknownName(text: string, name: string): InvalidInputError {
  return new InvalidInputError(
    `The expression ${text} speaks of "${name}".${formatSuggestion(suggest(name, NAMES))} Known here: ${NAMES.join(', ')}.`,
    { details: { name } },
  );
}
