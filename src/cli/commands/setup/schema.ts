import { NotFoundError } from '../../../core/errors.ts';
import type { Command } from '../../base/command.ts';

/** Describes what commands print with --json. */
export const command: Command = {
  arguments: '[command]',
  details:
    'Fields are only ever added. follow prints one such object a line. Without a command: the names of those that have one.',
  examples: [
    ['savestate schema log', 'what savestate log --json prints'],
    ['savestate schema', 'which commands have a JSON answer'],
  ],
  run: async (context, input) => {
    const [{ z }, { OUTPUT_SCHEMAS }] = await Promise.all([import('zod'), import('../../base/output-schemas.ts')]);
    const name = input.word(0);
    const known = Object.keys(OUTPUT_SCHEMAS);
    if (name === undefined) {
      return context.answer(known, () => `${known.join('\n')}\n`);
    }
    const schema = Object.entries(OUTPUT_SCHEMAS).find(([each]) => each === name)?.[1];
    if (schema === undefined) throw new NotFoundError(`"${name}" has no JSON answer. These have: ${known.join(', ')}.`);
    context.terminal.print(`${JSON.stringify(z.toJSONSchema(schema), undefined, 2)}\n`);
  },
};
