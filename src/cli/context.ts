import { dirname } from 'node:path';
import { setImmediate as giveWay } from 'node:timers/promises';
import {
  type AddressDefaults,
  formatStorageAddress,
  parseStorageAddress,
  type StorageAddress,
} from '../storage/address.ts';
import type { GlobalOptions } from './global-options.ts';
import { type Config, type FoundConfig, readConfig } from './place/config-file.ts';
import { stateFolderOf } from './place/state-folder.ts';
import { toPrintable } from './terminal/printable.ts';
import { ProgressBar, showBusy, type Work } from './terminal/progress-bar.ts';
import type { Terminal } from './terminal/terminal.ts';
import type { Workspace } from './workspace.ts';

/** What a context is made of: the person, and the world around the process. */
export type ContextParts = {
  readonly terminal: Terminal;
  readonly globals: GlobalOptions;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly signal: AbortSignal;
};

/** Soon enough for a person who pressed Ctrl-C. */
const GIVE_WAY_EVERY_MS = 20;

/** Used when nothing says where checkpoints are. */
export const DEFAULT_STORAGE = 'sqlite:.savestate/checkpoints.db';

/** What a command works with. It opens the storage when it is first asked for, and closes it at the end. */
export class Context {
  readonly terminal: Terminal;
  readonly globals: GlobalOptions;
  readonly env: ContextParts['env'];
  readonly folder: string;
  readonly signal: AbortSignal;
  #config: Promise<FoundConfig | undefined> | undefined;
  #gaveWayMs = 0;
  #workspace: Promise<Workspace> | undefined;

  constructor({ terminal, globals, env, folder, signal }: ContextParts) {
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
    context.#workspace = this.#workspace;
    return context;
  }

  config(): Promise<FoundConfig | undefined> {
    this.#config ??= readConfig(this.folder);
    return this.#config;
  }

  /** The storage that is meant: the option, the environment, the configuration, then `.savestate/checkpoints.db`. */
  async address(): Promise<StorageAddress> {
    const found = await this.config();
    const defaults = this.#addressDefaults(found?.config ?? {});
    const named = this.globals.storage ?? (this.env.SAVESTATE_STORAGE || undefined);
    if (named !== undefined) return parseStorageAddress(named, { folder: this.folder, ...defaults });
    // What a file says about paths is relative to it.
    const folder = found === undefined ? this.folder : dirname(found.path);
    return parseStorageAddress(found?.config.storage ?? DEFAULT_STORAGE, { folder, ...defaults });
  }

  #addressDefaults(config: Config): Pick<AddressDefaults, 'tenant' | 'schema'> {
    const { tenant, schema } = this.globals;
    return { tenant: tenant ?? this.env.SAVESTATE_TENANT ?? config.tenant, schema: schema ?? config.schema };
  }

  /** The folder of what the command line itself remembers about this storage. */
  async stateFolder(): Promise<string> {
    return stateFolderOf(this.env, formatStorageAddress(await this.address()));
  }

  /** The open storage; a NotFoundError if it does not exist, unless `create`. */
  workspace(options: { readonly create?: boolean } = {}): Promise<Workspace> {
    this.#workspace ??= this.#open(options);
    return this.#workspace;
  }

  async #open(options: { readonly create?: boolean }): Promise<Workspace> {
    const [{ openStorage }, { Workspace }, { readFirstBad }] = await Promise.all([
      import('../storage/open.ts'),
      import('./workspace.ts'),
      import('./place/bisect-file.ts'),
    ]);
    const sessionId = this.globals.session ?? (this.env.SAVESTATE_SESSION || (await this.config())?.config.session);
    const firstBad = readFirstBad(await this.stateFolder());
    const storage = await openStorage(await this.address(), { create: false, isInteractive: true, ...options });
    return new Workspace(storage, { sessionId: sessionId || undefined, firstBad });
  }

  async close(): Promise<void> {
    const workspace = await this.#workspace?.catch(() => undefined); // what could not be opened was told already
    await workspace?.close();
  }

  get isJson(): boolean {
    return this.globals.json;
  }

  /** Prints the answer: as JSON if that was asked for, else as text. */
  async answer(json: unknown, text: () => string): Promise<void> {
    if (this.isJson) return this.terminal.print(`${JSON.stringify(json, undefined, 2)}\n`);
    await this.show(text());
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
      isLong && this.globals.pager && (await (await import('./terminal/pager.ts')).page(toPrintable(text), this.env));
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
    const { confirm } = await import('./terminal/ask.ts');
    return confirm({ ...terminal, canAsk }, { question, yes: globals.yes, signal });
  }

  progress(work: Work): ProgressBar {
    return new ProgressBar(this.terminal, this.isJson || this.globals.quiet ? 'never' : this.globals.progress, work);
  }

  /** Waits for something that cannot tell how far it is, and shows that it goes on. */
  busy<Result>(what: string, work: Promise<Result>): Promise<Result> {
    return showBusy(this.progress({ noun: what, total: undefined }), work);
  }

  /** Who is said to have made a change. */
  get author(): string | undefined {
    return this.env.SAVESTATE_AUTHOR ?? this.env.USER ?? this.env.USERNAME;
  }

  /** Who talks with a team unless `--user` says so; containers often have no name for anybody. */
  get user(): string {
    return this.author ?? 'user';
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
