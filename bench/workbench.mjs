import { copyFileSync, existsSync, mkdtempSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { create } from 'mutative';
import { CheckpointManager, SqliteCheckpointStorage } from '../dist/index.js';
import { collectYoungGarbage } from './measure.mjs';
import { createMessage, createMessages, createState } from './messages.mjs';

export const LONG = 5000;
export const DURABILITIES = [
  { durability: 'power', synchronous: 'FULL', label: 'power-safe' },
  { durability: 'process', synchronous: 'NORMAL', label: 'process-safe' },
];

/** What a row works with: a folder of its own, the size of the run, and databases that the first row to need them makes and all copy. */
export class Workbench {
  #shared;
  #files = 0;

  /** `folder` is the run's. */
  constructor({ isQuick, report, folder }) {
    this.isQuick = isQuick;
    this.report = report;
    this.#shared = folder;
    this.folder = mkdtempSync(join(folder, 'row-'));
  }

  /** A tenth in a quick run, but never below what a median needs. */
  rounds(count) {
    return this.isQuick ? Math.max(5, Math.ceil(count / 10)) : count;
  }

  /** Rounds that are not timed, of what is slow and a process of its own. */
  warmup(count) {
    return this.isQuick ? 1 : count;
  }

  newPath(extension = 'db') {
    this.#files++;
    return join(this.folder, `${this.#files}.${extension}`);
  }

  /** A closed database with one session, `long`, of this many messages, one checkpoint each. Do not write to it: copy it. */
  async builtDatabase({ count = LONG, compress = false } = {}) {
    const path = join(this.#shared, `long-${count}${compress ? '-compressed' : ''}.db`);
    if (!existsSync(path)) renameSync(await buildDatabase(this.newPath(), { count, compress }), path);
    return path;
  }

  async copyOfDatabase(options) {
    const path = this.newPath();
    copyFileSync(await this.builtDatabase(options), path);
    return path;
  }
}

async function buildDatabase(path, { count, compress }) {
  const manager = openManager(path, { durability: 'process', compress });
  await extend(await manager.session('long'), frozenState([]), createMessages(count));
  await manager.close();
  return path;
}

export function openManager(path, { durability = 'power', compress = false } = {}) {
  return new CheckpointManager({ storage: new SqliteCheckpointStorage({ path, durability, compress }) });
}

/** Saves after every message; answers the last state. */
export async function extend(session, state, messages) {
  let last = state;
  for (const message of messages) {
    last = frozenState([...last.messages, Object.freeze(message)]);
    await session.save(last);
  }
  return last;
}

/** A frozen state without the price of a draft; what is measured uses `appended`. */
export function frozenState(messages) {
  const state = createState(Object.freeze(messages));
  Object.freeze(state.plan);
  return Object.freeze(state);
}

export function longState(count = LONG, seed = 1) {
  return frozenState(createMessages(count, seed).map((message) => Object.freeze(message)));
}

/** The next state, made as our runtimes make it: by a draft, frozen. */
export function edited(state, edit) {
  return create(state, edit, { enableAutoFreeze: true });
}

export function appended(state, message) {
  return edited(state, (draft) => {
    draft.messages.push(message);
    draft.turn++;
  });
}

/** Drafts are made this many saves ahead, and their garbage collected, so that no save pays for it. */
const DRAFTS_AHEAD = 25;

/** A session that grows by one message a turn; the states are made before the saves are timed. */
export class GrowingSession {
  #session;
  #seed;
  #next = [];
  /** The state that was handed out last. */
  state;

  constructor(session, state, seed) {
    this.#session = session;
    this.#seed = seed;
    this.state = state;
  }

  grow() {
    if (this.#next.length === 0) this.#makeDrafts();
    this.state = this.#next.shift();
    return this.state;
  }

  #makeDrafts() {
    let last = this.state;
    for (let made = 0; made < DRAFTS_AHEAD; made++) {
      last = appended(last, createMessage(last.messages.length, this.#seed));
      this.#next.push(last);
    }
    collectYoungGarbage();
  }

  get side() {
    return { prepare: () => this.grow(), run: (state) => this.#session.save(state) };
  }
}

/** The session `long` of a copied database, reopened with the given durability, with its state in memory as before. */
export async function reopenLong(workbench, { durability, count = LONG, seed = 1 }) {
  const path = await workbench.copyOfDatabase({ count });
  const manager = openManager(path, { durability });
  const session = await manager.session('long');
  return { path, manager, session, growing: new GrowingSession(session, longState(count), seed) };
}

export function fileBytes(path) {
  return ['', '-wal', '-shm'].reduce(
    (sum, end) => sum + (statSync(path + end, { throwIfNoEntry: false })?.size ?? 0),
    0,
  );
}

/** Keeps what is handed to a storage, to be weighed later with `commitBytes`. */
export function recordCommits(storage) {
  const commits = [];
  const commit = storage.commit.bind(storage);
  storage.commit = (given) => {
    commits.push(given);
    return commit(given);
  };
  return commits;
}

const DIGEST_BYTES = 32;

/** All bytes that a commit must store: chunk texts, digests and refs, root, header. */
export function commitBytes({ checkpoint, chunks = [] }) {
  const contents = checkpoint === undefined ? chunks : [...chunks, checkpoint.root];
  const state = contents.reduce(
    (sum, { text, refs }) => sum + Buffer.byteLength(text) + DIGEST_BYTES * (1 + refs.length),
    0,
  );
  return state + (checkpoint === undefined ? 0 : Buffer.byteLength(checkpoint.body) + DIGEST_BYTES);
}
