import { createReadStream, existsSync } from 'node:fs';
import { NotFoundError } from '../../../core/errors.ts';
import type { Command } from '../../base/command.ts';
import { formatCount } from '../../terminal/format.ts';

/** Reads an exported session. */
export const command: Command = {
  arguments: '<file>',
  details:
    'Everything is checked on the way; a broken file leaves nothing behind. The storage is made if it does not exist. - reads from standard input.',
  examples: [
    ['savestate import chat.jsonl', 'into the configured storage'],
    ['gunzip -c chat.jsonl.gz | savestate import - --storage other.db', 'into another one'],
  ],
  run: async (context, input) => {
    const file = input.need(0, 'which file');
    if (file !== '-' && !existsSync(file)) throw new NotFoundError(`There is no file ${file}.`);
    const { manager } = await context.open({ create: true });
    const source = file === '-' ? process.stdin : createReadStream(file);
    const { sessionId, checkpoints, chunks, effects } = await manager.importSession(
      context.watch<Uint8Array | string>(source, { noun: 'blocks', total: undefined }),
    );
    await context.answer(
      { sessionId, checkpoints, chunks, effects },
      () => `Session "${sessionId}": ${formatCount(checkpoints, 'checkpoint')}, ${formatCount(effects, 'effect')}.\n`,
    );
    context.say(`See it: savestate log -s ${JSON.stringify(sessionId)}`);
  },
};
