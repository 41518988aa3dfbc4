import { setImmediate as giveWay } from 'node:timers/promises';
import { InvalidInputError, UnsupportedError } from '../../core/errors.ts';
import { parseSessionId, type SessionId } from '../../core/record/id.ts';
import { formatSafeJson } from '../../core/safe-json.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import type { StorageAddress } from '../../storage/open/address.ts';
import type { Watch } from '../../view/history.ts';
import { type Address, formatAddress } from '../place/address.ts';
import {
  type FoundConfig,
  type FoundSettings,
  findAddress,
  findSettings,
  ownFolderOf,
  readConfig,
  type Surroundings,
} from '../place/project.ts';
import { cutLongLines } from '../terminal/format.ts';
import { ProgressBar, showBusy, type Work } from '../terminal/progress-bar.ts';
import type { Terminal } from '../terminal/terminal.ts';
import type { Program } from './command.ts';
import { type CommandInput, formatFlags, type GlobalOptions } from './command-input.ts';
import type { OpenKeyedOptions } from './open-keyed.ts';
import type { OpenStorage } from './open-storage.ts';

/** What a context is made of: the person, and the world around the process. */
export type ContextParts = {
  readonly program: Program;
  readonly terminal: Terminal;
  readonly globals: GlobalOptions;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly signal: AbortSignal;
};

type OpenOptions = OpenKeyedOptions & { readonly address?: StorageAddress };

/** What is opened once, for a command and all that it runs. */
type Shared = {
  config?: Promise<FoundConfig | undefined>;
  settings?: Promise<FoundSettings | undefined>;
  /** Where the storage of the project is, if settings of a workflow file are gone by. */
  home?: Address;
  storage?: Promise<OpenStorage> | undefined;
  isTidy?: boolean;
};

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
  readonly #shared: Shared;
  #gaveWayMs = 0;

  constructor({ program, terminal, globals, env, folder, signal }: ContextParts, shared: Shared = {}) {
    this.program = program;
    this.terminal = terminal;
    this.globals = globals;
    this.env = env;
    this.folder = folder;
    this.signal = signal;
    this.#shared = shared;
  }

  /** The same place, for another command: one storage is opened for both. */
  with(parts: Partial<ContextParts>): Context {
    return new Context({ ...this, ...parts }, this.#shared);
  }

  config(): Promise<FoundConfig | undefined> {
    this.#shared.config ??= readConfig(this.folder);
    return this.#shared.config;
  }

  /** Where the command is, and what holds there. */
  async place(): Promise<Surroundings> {
    return { folder: this.folder, env: this.env, config: await this.config() };
  }

  /** The settings of runs: those of `workflow.yaml`, with variables over them; undefined without any. */
  settings(): Promise<FoundSettings | undefined> {
    this.#shared.settings ??= this.place().then(findSettings);
    return this.#shared.settings;
  }

  /** Goes by other settings from now on: those of a workflow file that is run. */
  async useSettings(settings: FoundSettings): Promise<void> {
    this.#shared.home ??= await this.address();
    this.#shared.settings = Promise.resolve(settings);
  }

  /** Where the storage is that is meant. */
  async address(): Promise<Address> {
    return findAddress({ ...(await this.place()), globals: this.globals, settings: await this.settings() });
  }

  /** The same for what needs the storage at hand; a server's is refused, with what to do instead. */
  async addressHere(instead: string): Promise<StorageAddress> {
    const address = await this.address();
    if (address.kind !== 'remote') return address;
    throw new UnsupportedError(`This needs a local storage, and ${address.url} is a server. ${instead}`);
  }

  /** The folder of what the command line itself remembers about this storage. */
  async stateFolder(): Promise<string> {
    return ownFolderOf(this.env, formatAddress(await this.address()));
  }

  /** The same for the storage of the project, where a workflow file names another one. */
  homeFolder(): string | undefined {
    const { home } = this.#shared;
    return home && ownFolderOf(this.env, formatAddress(home));
  }

  /** The open storage; a NotFoundError if it does not exist, unless `create`. What could not be opened is tried again. */
  open(options: OpenOptions = {}): Promise<OpenStorage> {
    const shared = this.#shared;
    const opening = shared.storage ?? this.#openNow(options);
    shared.storage = opening;
    opening.catch(() => {
      if (shared.storage === opening) shared.storage = undefined;
    });
    return opening;
  }

  /** The session that an option, the environment or the configuration names. */
  async namedSession(): Promise<SessionId | undefined> {
    const name = this.globals.session ?? (this.env.SAVESTATE_SESSION || (await this.config())?.config.session);
    return name ? parseSessionId(name) : undefined;
  }

  /** The storage at an address, through the keys that hold here. */
  async openAt(address: Address, options: OpenKeyedOptions): Promise<ChunkStorage> {
    const { openKeyed } = await import('./open-keyed.ts');
    return openKeyed(await this.place(), address, options);
  }

  async #openNow({ address, create = false, plain = 'refuse' }: OpenOptions): Promise<OpenStorage> {
    const { OpenStorage } = await import('./open-storage.ts');
    const sessionId = await this.namedSession(); // before anything is made
    const storage = await this.openAt(address ?? (await this.address()), { create, plain });
    const readFirstBad = async () => (await import('../place/own-files.ts')).readFirstBad(this);
    const opened = new OpenStorage(storage, { sessionId, readFirstBad });
    await opened.finishReplacements();
    return opened;
  }

  /** The storage for a run, tidied as the settings say. With `enabled: false` it is one in memory, so that nothing is written. */
  async openForRun(): Promise<OpenStorage> {
    const off = await this.#findSwitchedOff();
    if (off !== undefined) {
      this.say(`${off}: nothing is saved.`);
      return this.open({ address: { kind: 'memory' } });
    }
    const opened = await this.open({ create: true });
    const maxAgeDays = (await this.settings())?.config.workflow.checkpointing.cleanup_after_days;
    if (maxAgeDays === undefined || this.#shared.isTidy) return opened;
    this.#shared.isTidy = true;
    await (await import('./tidy.ts')).tidyByAge(this, opened, maxAgeDays);
    return opened;
  }

  /** Who says that nothing is saved; undefined if checkpointing is on. */
  async #findSwitchedOff(): Promise<string | undefined> {
    const settings = await this.settings();
    const isOff = settings?.config.workflow.checkpointing.enabled === false;
    return isOff ? `Checkpointing is off (enabled: false, ${settings.path})` : undefined;
  }

  /** Whether a run leaves something behind: not with `enabled: false`, and not in memory. */
  async keepsRuns(): Promise<boolean> {
    return (await this.#findSwitchedOff()) === undefined && (await this.address()).kind !== 'memory';
  }

  /** Throws if settings switch checkpointing off: what was saved before cannot be continued then. */
  async checkSaving(): Promise<void> {
    const off = await this.#findSwitchedOff();
    if (off === undefined) return;
    throw new InvalidInputError(
      `${off}, so there is nothing to continue from, and nothing can be saved. Set enabled: true first.`,
    );
  }

  async close(): Promise<void> {
    const opened = await this.#shared.storage?.catch(() => undefined); // what could not be opened was told already
    await opened?.manager.close();
  }

  get isJson(): boolean {
    return this.globals.json;
  }

  /** Prints the answer: as JSON if that was asked for, else as text; very long lines are cut on a screen unless `isWhole`. */
  async answer(json: unknown, text: () => string, { isWhole = false } = {}): Promise<undefined> {
    if (this.isJson) return this.printJson(json);
    const whole = text();
    const shown = this.terminal.isScreen && !isWhole ? cutLongLines(whole) : whole;
    await this.show(shown);
    if (shown !== whole)
      this.say('Very long lines were cut. For everything use --json; for one value: savestate show <revision>:<path>');
  }

  printJson(json: unknown): undefined {
    this.terminal.printWhole(`${formatSafeJson(json, 2)}\n`);
  }

  /** Prints one line of an answer that goes on. */
  answerLine(json: unknown, text: () => string): void {
    if (this.isJson) this.terminal.printWhole(`${formatSafeJson(json)}\n`);
    else this.terminal.print(text());
  }

  /** Prints a text, in a pager if it is longer than the screen. */
  async show(text: string): Promise<void> {
    const { terminal } = this;
    const fitted = terminal.toFitting(text);
    const isLong = terminal.isScreen && this.globals.pager && fitted.split('\n').length > terminal.rows;
    const wasPaged = isLong && (await (await import('../terminal/pager.ts')).page(fitted, this.env));
    if (!wasPaged) terminal.print(text);
  }

  /** A command as it is to be typed next, for the storage and the session that were named. */
  command(words: string, session = this.globals.session): string {
    const { remote, tokenFile, storage, tenant, schema } = this.globals;
    return `savestate ${words}${formatFlags({ remote, 'token-file': tokenFile, storage, tenant, schema, session })}`;
  }

  /** Says something that is not the answer: what happened, what to do next. */
  say(text: string): void {
    if (!this.globals.quiet) this.terminal.note(`${text}\n`);
  }

  /** Asks before something is destroyed; with `--dry-run` it is not. */
  async confirm(question: string, input?: CommandInput): Promise<boolean> {
    if (input?.flag('dryRun') === true) return false;
    const { terminal, signal, globals } = this;
    const canAsk = terminal.canAsk && globals.input;
    const { confirm } = await import('../terminal/ask.ts');
    return confirm({ ...terminal, canAsk }, { question, yes: globals.yes, signal });
  }

  progress(work: Work): ProgressBar {
    return new ProgressBar(this.terminal, this.isJson || this.globals.quiet ? 'never' : this.globals.progress, work);
  }

  /** Shows how far something is that tells how much it has done. */
  async showing<Result>(work: Work, run: (show: (done: number) => void) => Promise<Result>): Promise<Result> {
    const bar = this.progress(work);
    return run((done) => bar.show(done)).finally(() => bar.end());
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

  /** The same for what the views of histories go through. */
  readonly watchCheckpoints: Watch = (items, total) => this.watch(items, { noun: 'checkpoints', total });

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
