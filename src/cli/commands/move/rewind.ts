import type { Command } from '../../base/command.ts';
import { noteOperation } from '../../place/own-files.ts';
import { resolveRevision } from '../../revision/resolve-revision.ts';
import { tellGraphMove } from '../../thread/thread-step.ts';
import { tellBranch, toForkOptions } from './fork.ts';

/** Goes back without losing anything. */
export const command: Command = {
  arguments: '<revision>',
  options: [
    ['-b, --branch <name>', 'the name of the new branch; default: generated'],
    ['--reason <text>', 'the reason, for later readers'],
  ],
  details:
    'Creates a branch at an ancestor of the head and makes it current: the next program that opens the session continues there. Later checkpoints stay on their branch.',
  examples: [
    ['savestate rewind @~3', 'three checkpoints back'],
    ['savestate rewind v1 -b again', 'to the tag v1'],
  ],
  run: async (context, input) => {
    const opened = await context.open();
    const origin = await resolveRevision(opened, input.need(0, 'to which checkpoint'));
    const before = await opened.manager.currentBranch(origin.sessionId);
    const head = await opened.manager.rewind(origin.id, toForkOptions(context, input));
    const { sessionId, branch, headId } = head;
    await noteOperation(context, {
      sessionId,
      summary: `rewind to ${origin.id} as branch "${branch}"`,
      undo: [
        { step: 'switch', kind: 'branch', name: before },
        { step: 'delete', kind: 'branch', name: branch, target: headId },
      ],
    });
    await tellBranch(context, head, `is current now, at #${origin.sequence}`);
    tellGraphMove(context, origin);
    context.say(`Nothing was deleted: "${before}" is unchanged. Undo with: ${context.command('undo')}`);
  },
};
