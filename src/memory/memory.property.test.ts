import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CheckpointManager, InMemoryCheckpointStorage } from '../index.ts';
import { Memory, SqliteMemoryStorage } from './index.ts';

const userId = 'ann';
const SESSIONS = ['s', 't'];
const WORDS = ['alpha', 'beta', 'gamma', 'delta'];

type Node = {
  id: string;
  sessionId: string;
  branch: string;
  parentId: string | undefined;
  atMs: number;
  isDeleted: boolean;
};

/** Where something happened: in a checkpoint, since a checkpoint on a branch, or nowhere. */
type Teacher =
  | { kind: 'checkpoint'; sessionId: string; id: string }
  | { kind: 'since'; sessionId: string; branch: string; id: string | undefined }
  | undefined;

type Happening = {
  teacher: Teacher;
  atMs: number;
  id: string;
  does: 'learn' | 'change' | 'forget' | 'promote';
  words: string;
};

/** The words of a memory, and the last thing that happened to it. */
type Seen = { words: string; version: number };

type Look = { sessionId: string; path: Node[]; branch: string | undefined };

/** Everything that ever happened, as plain lists; views are worked out from scratch every time. */
class NaiveMemory {
  readonly nodes = new Map<string, Node>();
  readonly heads = new Map<string, Map<string, string | undefined>>(SESSIONS.map((id) => [id, new Map()]));
  readonly current = new Map<string, string>(SESSIONS.map((id) => [id, 'main']));
  readonly happenings: Happening[] = [];

  pathOf(id: string | undefined): Node[] {
    const path: Node[] = [];
    for (let node = this.nodes.get(id ?? ''); node !== undefined; node = this.nodes.get(node.parentId ?? ''))
      path.push(node);
    return path;
  }

  lookFrom(sessionId: string, branch = this.current.get(sessionId) ?? 'main'): Look {
    return { sessionId, path: this.pathOf(this.heads.get(sessionId)?.get(branch)), branch };
  }

  see(own: Look | undefined, until?: { atMs: number; sessionId: string }): Map<string, Seen> {
    const looks = SESSIONS.map((id) => (own?.sessionId === id ? own : this.lookFrom(id)));
    const seen = new Map<string, Seen>();
    for (const [version, { teacher, atMs, id, does, words }] of this.happenings.entries()) {
      if (until !== undefined && atMs > until.atMs && teacher?.sessionId !== until.sessionId) continue;
      if (teacher !== undefined && !looks.some((look) => isVisible(teacher, look))) continue;
      const before = seen.get(id);
      if (does === 'forget') seen.delete(id);
      else if (does === 'learn') seen.set(id, { words: before?.words ?? words, version });
      else if (does === 'promote' || before !== undefined) seen.set(id, { words, version });
    }
    return seen;
  }
}

function isVisible(teacher: NonNullable<Teacher>, { sessionId, path, branch }: Look): boolean {
  if (teacher.sessionId !== sessionId) return false;
  if (teacher.kind === 'checkpoint') return path.some(({ id }) => id === teacher.id);
  const isNext = path.some((node) => node.branch === teacher.branch && node.parentId === teacher.id);
  const isSince = branch === teacher.branch && path[0]?.id === teacher.id;
  return isNext || isSince;
}

const command = fc.record({
  does: fc.constantFrom(
    'save',
    'learn',
    'learn',
    'learn since',
    'change',
    'forget',
    'fork',
    'rewind',
    'switch',
    'promote',
    'share',
    'prune',
  ),
  session: fc.constantFrom(...SESSIONS),
  pick: fc.nat(1000),
  words: fc.constantFrom(...WORDS),
});
type Command = typeof command extends fc.Arbitrary<infer Value> ? Value : never;

class World {
  readonly naive = new NaiveMemory();
  #clock = 1_700_000_000_000;
  #names = 0;
  readonly #folder = mkdtempSync(join(tmpdir(), 'savestate-memory-'));
  readonly manager = new CheckpointManager({
    storage: new InMemoryCheckpointStorage(),
    now: () => ++this.#clock,
    retention: { types: { manual: {} } },
  });
  readonly memory = new Memory({
    storage: new SqliteMemoryStorage({ path: join(this.#folder, 'h.db'), durability: 'process' }),
    manager: this.manager,
    now: () => ++this.#clock,
  });

  async close(): Promise<void> {
    await this.memory.close();
    await this.manager.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async run({ does, session: sessionId, pick, words }: Command): Promise<void> {
    const { naive, memory, manager } = this;
    const branch = naive.current.get(sessionId) ?? 'main';
    const heads = naive.heads.get(sessionId) ?? new Map<string, string | undefined>();
    const headId = heads.get(branch);
    const nodes = [...naive.nodes.values()].filter((node) => node.sessionId === sessionId && !node.isDeleted);
    const node = nodes.length === 0 ? undefined : nodes[pick % nodes.length];
    switch (does) {
      case 'save': {
        const session = await manager.session(sessionId, { branch });
        const id = await session.save({ pick });
        const { timestamp } = session.head ?? { timestamp: new Date(0) };
        await session.close();
        naive.nodes.set(id, { id, sessionId, branch, parentId: headId, atMs: timestamp.getTime(), isDeleted: false });
        heads.set(branch, id);
        return;
      }
      case 'learn':
        if (node === undefined) return;
        return this.#learn(
          words,
          { kind: 'checkpoint', sessionId, id: node.id },
          { sessionId, path: naive.pathOf(node.id), branch: undefined },
        );
      case 'learn since':
        if (headId === undefined) return; // a session that was never saved is not found
        return this.#learn(words, { kind: 'since', sessionId, branch, id: headId }, naive.lookFrom(sessionId));
      case 'share':
        return this.#learn(words, undefined, undefined);
      case 'fork': {
        if (node === undefined) return;
        const name = `branch ${this.#names++}`;
        await manager.fork(node.id, { branch: name });
        heads.set(name, node.id);
        return;
      }
      case 'rewind': {
        const path = naive.pathOf(headId);
        const target = path[pick % Math.max(1, path.length)];
        if (target === undefined || target.isDeleted) return;
        const name = `branch ${this.#names++}`;
        await memory.rewind(target.id, { branch: name });
        heads.set(name, target.id);
        naive.current.set(sessionId, name);
        return;
      }
      case 'prune':
        // Branches protect their heads; what is deleted leaves a tombstone, and memory minds neither.
        if (node !== undefined) node.isDeleted = await manager.delete(node.id);
        return;
      case 'switch': {
        const names = [...heads.keys()];
        const name = names[pick % Math.max(1, names.length)];
        if (name === undefined) return;
        await manager.switchBranch(sessionId, name);
        naive.current.set(sessionId, name);
        return;
      }
      case 'change':
      case 'forget':
      case 'promote': {
        const seen = [...naive.see(naive.lookFrom(sessionId))];
        const [id, old] = seen[pick % Math.max(1, seen.length)] ?? [];
        if (id === undefined || old === undefined || headId === undefined) return;
        return this.#edit(does, { id, old: old.words, words: `${words} ${this.#names++}`, sessionId, branch });
      }
    }
  }

  async #learn(words: string, teacher: Teacher, look: Look | undefined): Promise<void> {
    const { naive, memory } = this;
    const isKnown = [...naive.see(look).values()].some((seen) => seen.words === words);
    const session =
      teacher?.kind === 'since'
        ? { id: teacher.sessionId, branch: teacher.branch, head: naive.nodes.get(teacher.id ?? '') }
        : undefined;
    const checkpoint = teacher?.kind === 'checkpoint' ? teacher.id : undefined;
    // Every time is another source: that the same source adds nothing is tested elsewhere.
    const idempotencyKey = `${this.#names++}`;
    const { results } = await memory.add(words, { userId, session, checkpoint, idempotencyKey, infer: false });
    const [result] = results;
    expect(result?.event).toBe(isKnown ? 'REINFORCE' : 'ADD');
    naive.happenings.push({ teacher, atMs: this.#clock, id: result?.id ?? '', does: 'learn', words });
  }

  async #edit(
    does: 'change' | 'forget' | 'promote',
    {
      id,
      old,
      words,
      sessionId,
      branch,
    }: { id: string; old: string; words: string; sessionId: string; branch: string },
  ): Promise<void> {
    const { naive, memory } = this;
    const headId = naive.heads.get(sessionId)?.get(branch);
    const session = { id: sessionId, branch, head: naive.nodes.get(headId ?? '') };
    const teacher: Teacher = does === 'promote' ? undefined : { kind: 'since', sessionId, branch, id: headId };
    if (does === 'change') await memory.update(id, words, { session });
    else if (does === 'forget') await memory.delete(id, { session });
    else await memory.promote(id, { session });
    naive.happenings.push({ teacher, atMs: this.#clock, id, does, words: does === 'promote' ? old : words });
  }

  async check(pick: number): Promise<void> {
    const { naive } = this;
    await this.#compare({}, naive.see(undefined));
    for (const id of SESSIONS) {
      const names = [...(naive.heads.get(id)?.keys() ?? [])];
      const branch = names[pick % Math.max(1, names.length)];
      if (branch === undefined) continue;
      await this.#compare({ session: { id, branch } }, naive.see(naive.lookFrom(id, branch)));
    }
    const nodes = [...naive.nodes.values()].filter(({ isDeleted }) => !isDeleted);
    const node = nodes[pick % Math.max(1, nodes.length)];
    if (node === undefined) return;
    const look = { sessionId: node.sessionId, path: naive.pathOf(node.id), branch: undefined };
    await this.#compare({ asOf: node.id }, naive.see(look, node));
  }

  async #compare(view: object, seen: ReadonlyMap<string, Seen>): Promise<void> {
    const expected = [...seen].map(([id, { words }]) => [id, words] as const);
    const records = await this.memory.getAll({ userId, ...view });
    const found = records.map(({ id, memory }) => [id, memory]).sort();
    expect(found).toEqual(expected.toSorted());
    for (const word of WORDS) {
      const { results } = await this.memory.search(word, { userId, topK: 100, explain: true, ...view });
      const wanted = expected.filter(([, words]) => words.split(' ')[0] === word).map(([id]) => id);
      const worded = results.filter(({ parts }) => (parts?.lexical ?? 0) > 0); // neighbours come along
      expect(worded.map(({ id }) => id).sort()).toEqual(wanted.sort());
    }
  }
}

test('[memory.6] what is visible is what a naive replay of the visible events shows', {
  timeout: 300_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(command, { minLength: 5, maxLength: 40 }), async (commands) => {
      const world = new World();
      try {
        for (const one of commands) {
          await world.run(one);
          if (one.pick % 4 === 0) await world.check(one.pick);
        }
        await world.check(commands.length);
      } finally {
        await world.close();
      }
    }),
    { numRuns: Number(process.env.SAVESTATE_RUNS ?? 60) },
  );
});
