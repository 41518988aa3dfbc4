import { setImmediate as giveWay } from 'node:timers/promises';
import { InvalidInputError } from '../../core/errors.ts';
import { parseSessionId } from '../../core/record/id.ts';
import { formatStorageAddress, type StorageAddress } from '../../storage/open/address.ts';
import { type FoundConfig, readConfig } from '../place/config-file.ts';
import { findAddress } from '../place/find-address.ts';
import { type FoundSettings, findSettings } from '../place/settings-file.ts';
import { stateFolderOf } from '../place/state-folder.ts';
import { toPrintable } from '../terminal/printable.ts';
import { ProgressBar, showBusy, type Work } from '../terminal/progress-bar.ts';
import type { Terminal } from '../terminal/terminal.ts';
import type { Program } from './command.ts';
import type { GlobalOptions } from './global-options.ts';
import type { Workspace } from './workspace.ts';

/** What a context is made of: the person, and the world around the process. */
export type ContextParts = {
  readonly program: Program;
  readonly terminal: Terminal;
  readonly globals: GlobalOptions;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly signal: AbortSignal;
};

type OpenOptions = { readonly create?: boolean; readonly address?: StorageAddress };

/** Soon enough for a person who pressed Ctrl-C. */
const GIVE_WAY_EVERY_MS = 20;

/** What a command works with. It opens the storage when it is first asked for, and closes it at the end. */
export class Context {
  readonly program: Program;
  readonly terminal: Terminal;
  readonly globals: GlobalOptions;
  readonly env: ContextParts['env'];
  readonly folder: string;
  readonly signal: AbortSignal;
  #config: Promise<FoundConfig | undefined> | undefined;
  #settings: Promise<FoundSettings | undefined> | undefined;
  #gaveWayMs = 0;
  #open: { workspace?: Promise<Workspace> | undefined } = {};
  #isTidy = false;

  constructor({ program, terminal, globals, env, folder, signal }: ContextParts) {
    this.program = program;
    this.terminal = terminal;
    this.globals = globals;
    this.env = env;
    this.folder = folder;
    this.signal = signal;
  }

  /** The same place, for another command: one storage is opened for both. */
  with(parts: Partial<ContextParts>): Context {
    const context = new Context({ ...this, ...parts });
    context.#config = this.#config;
    context.#settings = this.#settings;
    context.#open = this.#open; // also what is opened later
    return context;
  }

  config(): Promise<FoundConfig | undefined> {
    this.#config ??= readConfig(this.folder);
    return this.#config;
  }

  /** The settings of runs: those of `workflow.yaml`, with variables over them; undefined without any. */
  settings(): Promise<FoundSettings | undefined> {
    const { folder, env } = this;
    this.#settings ??= this.config().then((config) => findSettings({ folder, env, config }));
    return this.#settings;
  }

  /** Goes by other settings from now on: those of a workflow file that is run. */
  useSettings(settings: FoundSettings): void {
    this.#settings = Promise.resolve(settings);
  }

  /** Where the storage is that is meant. */
  async address(): Promise<StorageAddress> {
    const { globals, env, folder } = this;
    return findAddress({ globals, env, folder, config: await this.config(), settings: await this.settings() });
  }

  /** The folder of what the command line itself remembers about this storage. */
  async stateFolder(): Promise<string> {
    return stateFolderOf(this.env, formatStorageAddress(await this.address()));
  }

  /** The open storage; a NotFoundError if it does not exist, unless `create`. */
  workspace(options: { readonly create?: boolean } = {}): Promise<Workspace> {
    return this.#openOnce(options);
  }

  /** What could not be opened is tried again: it may be there by then. */
  #openOnce(options: OpenOptions): Promise<Workspace> {
    const opening = this.#open.workspace ?? this.#openNow(options);
    this.#open.workspace = opening;
    opening.catch(() => {
      if (this.#open.workspace === opening) this.#open.workspace = undefined;
    });
    return opening;
  }

  /** The storage for a run, tidied as the settings say. With `enabled: false` it is one in memory, so that nothing is written. */
  async runWorkspace(): Promise<Workspace> {
    const settings = await this.settings();
    const { enabled = true, cleanup_after_days: maxAgeDays } = settings?.config.workflow.checkpointing ?? {};
    if (!enabled) {
      this.say(`Checkpointing is off (enabled: false, ${settings?.path}): nothing is saved.`);
      return this.#openOnce({ address: { kind: 'memory' } });
    }
    const workspace = await this.workspace({ create: true });
    if (maxAgeDays === undefined || this.#isTidy) return workspace;
    this.#isTidy = true;
    const deleted = await workspace.manager.cleanupOldCheckpoints({ maxAgeDays });
    if (deleted > 0) this.say(`${deleted} older than ${maxAgeDays} days deleted (cleanup_after_days).`);
    return workspace;
  }

  /** Whether a run leaves something behind: not with `enabled: false`, and not in memory. */
  async keepsRuns(): Promise<boolean> {
    const settings = await this.settings();
    return settings?.config.workflow.checkpointing.enabled !== false && (await this.address()).kind !== 'memory';
  }

  /** Throws if settings switch checkpointing off: what was saved before cannot be gone on with then. */
  async checkSaving(): Promise<void> {
    const settings = await this.settings();
    if (settings?.config.workflow.checkpointing.enabled !== false) return;
    throw new InvalidInputError(
      `Checkpointing is off (enabled: false, ${settings.path}), so there is nothing to go on from, and nothing may be saved. Set enabled: true first.`,
    );
  }

  async #openNow({ address, create = false }: OpenOptions): Promise<Workspace> {
    const [{ openStorage }, { Workspace }, { readFirstBad }] = await Promise.all([
      import('../../storage/open/open.ts'),
      import('./workspace.ts'),
      import('../place/bisect-file.ts'),
    ]);
    const sessionId = this.globals.session ?? (this.env.SAVESTATE_SESSION || (await this.config())?.config.session);
    if (sessionId) parseSessionId(sessionId); // before anything is made
    const firstBad = readFirstBad(await this.stateFolder());
    const storage = await openStorage(address ?? (await this.address()), { create, isInteractive: true });
    return new Workspace(storage, { sessionId: sessionId || undefined, firstBad });
  }

  async close(): Promise<void> {
    const workspace = await this.#open.workspace?.catch(() => undefined); // what could not be opened was told already
    await workspace?.close();
  }

  get isJson(): boolean {
    return this.globals.json;
  }

  /** Prints the answer: as JSON if that was asked for, else as text. */
  async answer(json: unknown, text: () => string): Promise<undefined> {
    if (this.isJson) this.terminal.print(`${JSON.stringify(json, undefined, 2)}\n`);
    else await this.show(text());
  }

  /** Prints one line of an answer that goes on. */
  answerLine(json: unknown, text: () => string): void {
    this.terminal.print(this.isJson ? `${JSON.stringify(json)}\n` : text());
  }

  /** Prints a text, in a pager if it is longer than the screen. */
  async show(text: string): Promise<void> {
    const { terminal } = this;
    const isLong = terminal.isScreen && text.split('\n').length > terminal.rows;
    const wasPaged =
      isLong && this.globals.pager && (await (await import('../terminal/pager.ts')).page(toPrintable(text), this.env));
    if (!wasPaged) terminal.print(text);
  }

  /** Says something that is not the answer: what happened, what to do next. */
  say(text: string): void {
    if (!this.globals.quiet) this.terminal.note(`${text}\n`);
  }

  /** Asks before something is destroyed. */
  async confirm(question: string): Promise<boolean> {
    const { terminal, signal, globals } = this;
    const canAsk = terminal.canAsk && globals.input;
    const { confirm } = await import('../terminal/ask.ts');
    return confirm({ ...terminal, canAsk }, { question, yes: globals.yes, signal });
  }

  progress(work: Work): ProgressBar {
    return new ProgressBar(this.terminal, this.isJson || this.globals.quiet ? 'never' : this.globals.progress, work);
  }

  /** Goes through items, one after the other: shows how far it is, and lets Ctrl-C stop it. */
  async *watch<Item>(items: Iterable<Item> | AsyncIterable<Item>, work: Work): AsyncGenerator<Item> {
    const bar = this.progress(work);
    let done = 0;
    try {
      for await (const item of items) {
        await this.checkStop();
        bar.show(++done);
        yield item;
      }
    } finally {
      bar.end();
    }
  }

  /** Waits for something that cannot tell how far it is, and shows that it goes on. */
  busy<Result>(what: string, work: Promise<Result>): Promise<Result> {
    return showBusy(this.progress({ noun: what, total: undefined }), work);
  }

  /** Who is said to have made a change. */
  get author(): string | undefined {
    const { SAVESTATE_AUTHOR, USER, USERNAME } = this.env;
    return SAVESTATE_AUTHOR || USER || USERNAME || undefined;
  }

  /** Whose memory it is unless `--user` says so; containers often have no name for anybody. */
  get user(): string {
    return this.env.SAVESTATE_USER || this.author || 'user';
  }

  /**
   * Throws if the person stopped the command; to be called in every long loop. Gives way now and then: a loop over a storage in this
   * process would otherwise never let a signal in.
   */
  async checkStop(): Promise<void> {
    if (performance.now() - this.#gaveWayMs > GIVE_WAY_EVERY_MS) {
      await giveWay();
      this.#gaveWayMs = performance.now();
    }
    this.signal.throwIfAborted();
  }
}
