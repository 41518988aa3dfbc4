// Saves a conversation message by message and says each id after it was acknowledged, until it is killed.
import { openManager, openStorage, say, told } from './common.mjs';
import { messageOf } from './states.mjs';

say({ ready: true });
const config = told();
const manager = openManager(openStorage(config));
const session = await manager.session('chat');
say({ open: session.head?.sequence ?? 0 });
const state = session.state ?? { count: 0, messages: [] };
for (;;) {
  state.messages.push(messageOf(state.count));
  state.count++;
  const id = await session.save(state);
  say({ saved: id, count: state.count });
}
