// Transcripts of the Claude Agent SDK in one SQLite file: read, forked, rewound. No model is called.
// node examples/claude/sessions.mjs
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { forkSession, getSessionMessages, listSessions, renameSession } from '@anthropic-ai/claude-agent-sdk';
import { CheckpointManager, SqliteCheckpointStorage } from 'savestate';
import { SavestateSessionStore } from 'savestate/claude';

const dir = mkdtempSync(join(tmpdir(), 'savestate-claude-'));
const storage = new SqliteCheckpointStorage({ path: join(dir, 'sessions.db') });
const sessionStore = new SavestateSessionStore(storage); // query({ prompt, options: { sessionStore } }) is all it takes
try {
  const projectKey = dir.replace(/[^a-zA-Z0-9]/g, '-');
  const sessionId = randomUUID();
  const key = { projectKey, sessionId };

  console.log('1. Two turns arrive, as the SDK mirrors them. One batch arrives twice.');
  let parentUuid = null;
  for (const [question, answer] of [
    ['Where is order 1042?', 'It left yesterday. '.repeat(40)],
    ['Then cancel it.', 'It cannot be cancelled any more. '.repeat(40)],
  ]) {
    const said = say('user', question);
    const batch = [said, say('assistant', [{ type: 'text', text: answer }])];
    await sessionStore.append(key, batch);
    await sessionStore.append(key, batch);
  }
  console.log(`   ${(await getSessionMessages(sessionId, { dir, sessionStore })).length} messages`);

  console.log('2. A fork has new ids, and shares what is long.');
  const before = await storage.stats();
  const fork = await forkSession(sessionId, { dir, sessionStore });
  await renameSession(fork.sessionId, 'What if', { dir, sessionStore });
  const after = await storage.stats();
  console.log(
    `   ${after.chunks - before.chunks} new chunks for ${(await getSessionMessages(fork.sessionId, { dir, sessionStore })).length} messages`,
  );
  for (const { summary } of await listSessions({ dir, sessionStore })) console.log(`   session: ${summary}`);

  console.log('3. A rewind: the next resume begins before the last turn.');
  const manager = new CheckpointManager({ storage });
  const session = `claude/${projectKey}/${sessionId}`;
  const { checkpoints } = await manager.list({ sessionId: session });
  for (const { sequence, trigger } of checkpoints) console.log(`   checkpoint ${sequence}: ${trigger}`);
  await manager.rewind(checkpoints.at(-1).id);
  console.log(`   ${(await getSessionMessages(sessionId, { dir, sessionStore })).length} messages`);
  console.log(`4. Verified: ${(await manager.verify()).status}.`);

  function say(type, content) {
    const uuid = randomUUID();
    const entry = { type, uuid, parentUuid, sessionId, cwd: dir, timestamp: new Date().toISOString() };
    parentUuid = uuid;
    return { ...entry, message: { role: type, content } };
  }
} finally {
  await storage.close();
  rmSync(dir, { recursive: true });
}
