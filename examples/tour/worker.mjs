// The process of the tour that is going to be killed: it talks, and tells after each message that it is saved.
import { open } from 'savestate';
import { converse, newState } from './conversation.mjs';

const [path, callLog] = process.argv.slice(2);
const manager = await open(path);
const session = await manager.session('office-move');
await converse(session, session.state ?? newState(), {
  callLog,
  onMessage: async (count, id) => {
    process.send({ count, id });
    await new Promise((resolve) => setTimeout(resolve, 40));
  },
});
await manager.close();
