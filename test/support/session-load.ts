import { setTimeout as sleep } from 'node:timers/promises';
import { hasErrorCode, isOutcomeUnknown } from '../../src/core/errors.ts';
import type { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import type { SaveOptions } from '../../src/manager/engine/save-options.ts';
import type { Session } from '../../src/manager/session/session.ts';
import type { Random } from '../../src/testing/contract/random.ts';

/** What a caller was told about a call: it was done, nothing of it was, or nobody knows. */
export type Told = 'done' | 'refused' | 'unknown';

/** What a session was told about each thing it asked for. */
export type Diary = {
  readonly sessionId: string;
  /** By number, in the order of the calls. */
  readonly saves: Map<number, { told: Told; readonly id: string | undefined }>;
  readonly steps: Map<number, { told: Told; runs: number }>;
  /** By number; each names the checkpoint it was for. */
  readonly tags: Map<number, { told: Told; readonly id: string }>;
  readonly forks: Map<number, { told: Told; readonly id: string }>;
  readonly deletions: Map<string, Told>;
  /** Sessions beside this one, by number, which were saved once and then deleted. */
  readonly sideSessions: Map<number, Told>;
  /** What must not happen, whatever the server does. */
  readonly surprises: string[];
};

/** The state of the save with this number. No other save of any session has the same. */
export function loadState(sessionId: string, number: number): unknown {
  const messages = Array.from({ length: number % 40 }, (_, at) => `message ${at} of ${sessionId} `.repeat(8));
  return { sessionId, number, messages };
}

export const sideSessionOf = (sessionId: string, number: number): string => `${sessionId} side ${number}`;

/** How long a session thinks between calls, at most. */
const PAUSE_MS = 8;
const STALE_CONNECTIONS = 10;
/** How often a save with a key is repeated while nobody knows whether it was stored. */
const KEYED_TRIES = 3;

export type Action = 'save' | 'saveTwo' | 'saveKeyed' | 'step' | 'tag' | 'fork' | 'delete' | 'sideSession';

const ALL_ACTIONS: Actions = [
  'save',
  'save',
  'save',
  'saveTwo',
  'saveKeyed',
  'step',
  'step',
  'tag',
  'fork',
  'delete',
  'sideSession',
];

/** Which of them a session picks from; one that is named twice comes up twice as often. */
type Actions = readonly [Action, ...Action[]];

type LoadOptions = {
  readonly sessionId: string;
  readonly random: Random;
  /** Default: all. */
  readonly actions?: Actions;
  /** Told of each save that is acknowledged. */
  readonly onStored?: () => void;
};

/** Works in one session, at random, and keeps a diary. */
export class SessionLoad {
  readonly diary: Diary;
  readonly #manager: CheckpointManager;
  readonly #random: Random;
  readonly #actions: Actions;
  readonly #onStored: () => void;
  #session: Session | undefined;
  #count = 0;

  constructor(
    manager: CheckpointManager,
    { sessionId, random, actions = ALL_ACTIONS, onStored = () => undefined }: LoadOptions,
  ) {
    this.#manager = manager;
    this.#random = random;
    this.#actions = actions;
    this.#onStored = onStored;
    this.diary = {
      sessionId,
      saves: new Map(),
      steps: new Map(),
      tags: new Map(),
      forks: new Map(),
      deletions: new Map(),
      sideSessions: new Map(),
      surprises: [],
    };
  }

  async runUntil(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      await this.act(this.#random.pick(this.#actions));
      await sleep(this.#random.below(PAUSE_MS));
    }
  }

  /** Saves until it is told that it worked. The server is there again: only connections may be left that do not know yet. */
  async goOn(): Promise<void> {
    for (let tries = 0; tries < STALE_CONNECTIONS; tries++) {
      await this.act('save');
      if (this.diary.saves.get(this.#count)?.told === 'done') return;
    }
    this.diary.surprises.push(`save ${this.#count} was not stored although the server is there`);
  }

  async act(action: Action): Promise<void> {
    const session = await this.#open();
    if (session === undefined) return;
    const number = ++this.#count;
    switch (action) {
      case 'save':
        return this.#save(session, number);
      case 'saveTwo':
        await Promise.all([this.#save(session, number), this.#save(session, ++this.#count)]);
        return;
      case 'saveKeyed':
        return this.#saveKeyed(session, number);
      case 'step':
        return this.#step(session, number);
      case 'tag':
        return this.#point(number, this.diary.tags, (id) => this.#manager.tag(id, `tag-${number}`));
      case 'fork':
        return this.#point(number, this.diary.forks, (id) => this.#manager.fork(id, { branch: `fork-${number}` }));
      case 'delete':
        return this.#delete();
      case 'sideSession':
        return this.#sideSession(number);
    }
  }

  async #open(): Promise<Session | undefined> {
    try {
      this.#session ??= await this.#manager.session(this.diary.sessionId);
    } catch (error) {
      this.#judge(error, 'opening');
    }
    return this.#session;
  }

  async #save(session: Session, number: number, options: SaveOptions = {}): Promise<void> {
    const before = this.diary.saves.get(number);
    try {
      const id = await session.save(loadState(this.diary.sessionId, number), options);
      this.diary.saves.set(number, { told: 'done', id });
      this.#onStored();
    } catch (error) {
      const told = this.#judge(error, `save ${number}`);
      this.diary.saves.set(number, { told: before?.told === 'unknown' ? 'unknown' : told, id: undefined });
    }
  }

  async #saveKeyed(session: Session, number: number): Promise<void> {
    for (let tries = 0; tries < KEYED_TRIES; tries++) {
      await this.#save(session, number, { idempotencyKey: `key-${number}` });
      if (this.diary.saves.get(number)?.told !== 'unknown') return;
    }
  }

  async #step(session: Session, number: number): Promise<void> {
    const entry: { told: Told; runs: number } = { told: 'unknown', runs: 0 };
    this.diary.steps.set(number, entry);
    try {
      const result = await session.step(`step-${number}`, () => {
        entry.runs++;
        return number;
      });
      if (result !== number) this.diary.surprises.push(`step ${number} answered ${result}`);
      entry.told = 'done';
    } catch (error) {
      entry.told = this.#judge(error, `step ${number}`);
      // Whether it has begun is not known, so its place in the log may be taken: whoever goes on has to look.
      if (entry.told === 'unknown') this.#session = undefined;
    }
  }

  async #point(number: number, entries: Diary['tags'], call: (id: string) => Promise<unknown>): Promise<void> {
    const id = this.#pickStored();
    if (id === undefined) return;
    entries.set(number, { id, told: await this.#tell(call(id), `tag or fork ${number}`) });
  }

  /** Deletes a checkpoint that nothing protects. */
  async #delete(): Promise<void> {
    const { tags, forks, deletions, saves } = this.diary;
    const id = this.#pickStored();
    const isNamed = [...tags.values(), ...forks.values()].some((entry) => entry.id === id);
    // Saves after it whose outcome is unknown may not be there: then it is the head.
    const isLast = [...saves.values()].findLast(({ told }) => told === 'done')?.id === id;
    if (id === undefined || isNamed || isLast) return;
    const isDeleted = this.#manager.delete(id);
    deletions.set(id, await this.#tell(isDeleted, `deleting ${id}`));
    if (deletions.get(id) === 'done' && !(await isDeleted)) this.diary.surprises.push(`${id} was not deleted`);
  }

  /** A checkpoint that was stored for certain, and not deleted since. */
  #pickStored(): string | undefined {
    const ids = [...this.diary.saves.values()].flatMap(({ id }) => (id === undefined ? [] : [id]));
    const live = ids.filter((id) => !this.diary.deletions.has(id));
    return live[this.#random.below(live.length)];
  }

  async #sideSession(number: number): Promise<void> {
    const { sideSessions, sessionId, surprises } = this.diary;
    const name = sideSessionOf(sessionId, number);
    const saved = await this.#tell(
      this.#manager.session(name).then((session) => session.save({ number })),
      `saving ${name}`,
    );
    if (saved === 'refused') return;
    const isDeleted = this.#manager.deleteSession(name);
    const told = await this.#tell(isDeleted, `deleting ${name}`);
    if (told === 'done' && saved === 'done' && !(await isDeleted)) surprises.push(`${name} was not there to delete`);
    sideSessions.set(number, saved === 'unknown' ? 'unknown' : told);
  }

  async #tell(call: Promise<unknown>, what: string): Promise<Told> {
    try {
      await call;
      return 'done';
    } catch (error) {
      return this.#judge(error, what);
    }
  }

  /** While a server is away nothing but StorageErrors may come up. */
  #judge(error: unknown, what: string): Told {
    if (!hasErrorCode(error, 'STORAGE')) {
      this.diary.surprises.push(`${what}: ${String(error)}`);
      this.#session = undefined;
    }
    return isOutcomeUnknown(error) ? 'unknown' : 'refused';
  }
}
