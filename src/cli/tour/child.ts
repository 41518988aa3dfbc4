import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { SqliteCheckpointStorage } from '../../storage/sqlite/sqlite-storage.ts';
import { converse, newState, type TourState } from './conversation.ts';

/** The process that is going to be killed: talks, and says after each message that it is saved. */
const [path = '', callLog = ''] = process.argv.slice(2);
const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path }) });
const session = await manager.session('office-move');
const state = (session.state as TourState | undefined) ?? newState();
await converse(session, state, {
  callLog,
  onMessage: async (count, id) => {
    process.send?.({ count, id });
    await new Promise((resolve) => setTimeout(resolve, 40));
  },
});
await manager.close();
