// The example of the README.
import { CheckpointManager, SqliteCheckpointStorage } from 'savestate';

const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: 'agent.db' }) });
const session = await manager.session('support-chat'); // begins it, or resumes it where a crash left it
const state = (session.state as { messages: string[] } | undefined) ?? { messages: [] };

const answer = await session.step('ask-model', async () => 'Your order left on Monday.'); // recorded: not repeated after a crash
state.messages.push('Where is my order?', answer);
const saved = await session.save(state, { type: 'auto', trigger: 'message_appended' }); // durable when it resolves

const edit = [{ op: 'replace', path: '/messages/1', value: 'It left on Tuesday.' }] as const;
const fork = await manager.fork(saved, { edit });
const { changedFields } = await manager.compare(saved, fork.headId);
console.log(session.head?.sequence, changedFields, (await manager.verify()).status); // 1 [ '$.messages[1]' ] clean
await manager.close();
