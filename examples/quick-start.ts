// The example of the README. Kill it where you like and run it again: nothing is asked twice.
import { CheckpointManager, SqliteCheckpointStorage } from 'savestate';

const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: 'agent.db' }) });
const session = await manager.session('support-chat'); // begins it, or resumes it where a crash left it
const chat = (session.state ?? { messages: [] }) as { messages: string[] };

if (chat.messages.length === 0) {
  chat.messages.push('Where is my order?');
  await session.save(chat); // durable when it resolves
}
if (chat.messages.length === 1) {
  const answer = await session.step('answer', async () => 'Your order left on Monday.'); // recorded: not repeated after a crash
  chat.messages.push(answer);
  await session.save(chat);
}

const edit = [{ op: 'replace', path: '/messages/1', value: 'It left on Tuesday.' }] as const;
const fork = await manager.fork(session.head?.id ?? '', { edit });
const { changedFields } = await manager.compare(session.head?.id ?? '', fork.headId);
console.log(chat.messages.length, changedFields, (await manager.verify()).status); // 2 [ '$.messages[1]' ] clean
await manager.close();
