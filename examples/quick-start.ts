// The example of the README. Kill it where you like and run it again: nothing is asked twice.
import { open } from 'savestate';

type Chat = { messages: { role: 'user' | 'assistant'; content: string }[] };
const askModel = async (_messages: Chat['messages']) => 'Your order left on Monday.'; // your model

const manager = await open('agent.db'); // SQLite; or './folder/', 'memory:', 'postgres://host/database?tenant=acme'
const session = await manager.session<Chat>('support', { initial: { messages: [] } });

if (!session.isResumed) await session.update((chat) => chat.messages.push({ role: 'user', content: 'Where is it?' }));
if (session.state.messages.at(-1)?.role === 'user') {
  const content = await session.step('answer', () => askModel(session.state.messages)); // recorded: not repeated after a crash
  await session.update((chat) => chat.messages.push({ role: 'assistant', content })); // durable when it resolves
}

const other = await session.fork({
  edit: (chat) => {
    chat.messages[1] = { role: 'assistant', content: 'It left on Tuesday.' };
  },
});
console.log(session.state.messages.length, (await session.diff('@', other.branch)).changedFields); // 2 [ '$.messages[1].content' ]
await manager.close();
