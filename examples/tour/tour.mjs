// What Savestate is for, on a temporary database; needs no server and no key: npm start, savestate demo, or node examples/tour/tour.mjs
import { fork } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { open } from 'savestate';
import { converse, MESSAGES } from './conversation.mjs';

const KILL_AFTER = 5;

class Tour {
  #folder = mkdtempSync(join(tmpdir(), 'savestate-tour-'));
  #path = join(this.#folder, 'tour.db');
  #callLog = join(this.#folder, 'model-calls.txt');

  async run() {
    say('Savestate: save states for AI agents. A short tour, on a real SQLite file:', `  ${this.#path}`);
    try {
      await this.#talkUntilKilled();
      const manager = await open(this.#path);
      await this.#resume(manager);
      await this.#forkAndCompare(manager);
      await this.#forget(manager);
      await this.#trust(manager);
      await manager.close();
    } finally {
      rmSync(this.#folder, { recursive: true, force: true });
    }
    say(
      '',
      'The temporary files are gone. Next: docs/TUTORIAL.md and docs/GUIDE.md of the package (node_modules/savestate).',
    );
  }

  async #talkUntilKilled() {
    title('1. Two agents talk. Every message is saved before the next one is written.');
    const child = fork(join(import.meta.dirname, 'worker.mjs'), [this.#path, this.#callLog], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    child.on('message', ({ count, id }) => {
      say(`  message ${count} saved as ${id}`);
      if (count === KILL_AFTER) child.kill('SIGKILL');
    });
    const signal = await new Promise((resolve) => child.once('exit', (_, killedBy) => resolve(killedBy)));
    say(`  ... and the process is gone, killed by ${signal} in the middle of its work.`);
  }

  async #resume(manager) {
    title('2. Another process opens the session and goes on.');
    const session = await manager.session('office-move');
    const state = session.state;
    say(`  ${state.messages.length} messages came back; the last one: "${state.messages.at(-1)?.text}"`);
    const timesMs = [];
    let startedMs = performance.now();
    await converse(session, state, {
      callLog: this.#callLog,
      onMessage: () => {
        timesMs.push(performance.now() - startedMs);
        startedMs = performance.now();
      },
    });
    const calls = readFileSync(this.#callLog, 'utf8').trim().split('\n');
    say(
      `  The conversation is complete: ${state.messages.length} messages, ${session.head?.sequence} checkpoints.`,
      `  The model was called ${calls.length} times for ${MESSAGES} answers; no answer that was recorded was asked for again.`,
      `  A turn (one recorded call and one checkpoint, both safe against power loss) took ${median(timesMs).toFixed(2)} ms.`,
    );
    await session.close();
  }

  async #forkAndCompare(manager) {
    title('3. What if message 3 had been another one? Fork there, change it, compare.');
    const { checkpoints } = await manager.list({ sessionId: 'office-move' }, { order: 'oldest' });
    const third = checkpoints[2];
    const head = checkpoints.at(-1);
    const fork = await manager.fork(third.id, {
      branch: 'rent-a-switch',
      edit: [{ op: 'replace', path: '/messages/2/text', value: 'Then let us rent one; it would be here tomorrow.' }],
      author: 'the tour',
      reason: 'see whether renting repairs the plan',
    });
    const edit = await manager.compare(third.id, fork.headId);
    say(`  Branch "${fork.branch}" begins at checkpoint 3 with one edit; the original is untouched.`);
    for (const { path, oldValue, newValue } of edit.modified)
      say(`    ${path}`, `      - ${oldValue}`, `      + ${newValue}`);
    const sinceThird = await manager.compare(third.id, head.id);
    say(
      `  From checkpoint 3 to the head of main: ${sinceThird.added.length} messages added, ${sinceThird.modified.length} changed.`,
    );
    await manager.tag(head.id, 'plan-complete');
    say('  The head of main is tagged "plan-complete": retention will never touch it.');
  }

  async #forget(manager) {
    title('4. Keep history small: retention says what it drops, and why; gc gives the space back.');
    const policy = { keepLast: 4 };
    const preview = await manager.prune({ policy, dryRun: true });
    for (const { id, keep, reason } of preview.verdicts.slice(0, 3).concat(preview.verdicts.slice(-2))) {
      say(`  ${keep ? 'keep' : 'drop'} ${id}: ${reason}`);
    }
    const { deleted } = await manager.prune({ policy });
    const collected = await manager.gc();
    const { checkpoints, tombstones } = await manager.stats();
    say(
      `  ${deleted.length} checkpoints dropped, ${collected.chunks} chunks removed; ${checkpoints} checkpoints and ${tombstones} tombstones are left.`,
    );
  }

  async #trust(manager) {
    title('5. Trust it: every chunk, record, chain and head is checked.');
    const report = await manager.verify();
    say(
      `  verify: ${report.status} (${report.checkpoints} checkpoints, ${report.chunks} chunks, ${report.effects} recorded calls)`,
    );
    const { id } = await manager.latest({ branch: 'main' });
    const state = await manager.load(id);
    say(
      `  The newest state loads whole: ${state.messages.length} messages. The file has ${statSync(this.#path).size} bytes.`,
    );
  }
}

function say(...lines) {
  for (const line of lines) console.log(line);
}

function title(text) {
  say('', text);
}

function median(values) {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
}

await new Tour().run();
