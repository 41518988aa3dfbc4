import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import { freezeState } from '../../core/freeze.ts';
import { checkValue, filledString } from '../../core/options.ts';
import { COMPARES_CODE, type ComparedState } from '../../manager/agent/agent.ts';
import type { RestoreProblem } from '../../manager/engine/loading.ts';
import { renderNothing } from '../../memory/storage/memory-record.ts';
import type { CodeBlock, CodeExecutionConfig } from '../code/code-executor.ts';
import { extractCodeBlocks } from '../code/extract-code-blocks.ts';
import type { ChatModel, LanguageModel } from '../model/chat-model.ts';
import { type LlmConfig, requestSettings } from '../model/llm-config.ts';
import { compareFields, loadFields, readFields } from './agent-fields.ts';
import {
  type AgentOverride,
  adoptGiven,
  checkAgent,
  checkOverride,
  checkReply,
  compareGiven,
  compareTools,
  createState,
  type GivenState,
  givenState,
  overrideModel,
  type StandardAgentOptions,
} from './agent-options.ts';
import { AgentRegistry } from './agent-registry.ts';
import {
  type AgentState,
  type AgentStatus,
  addTotals,
  changeStatus,
  forgetPartner,
  introduce,
  parseAgentState,
  subtractTotals,
} from './agent-state.ts';
import { captureFolder, runCode, takeTurn } from './agent-turn.ts';
import { type ChatMessage, PERSON, toModelMessages } from './chat-message.ts';
import { UnrecordedEffects } from './effects.ts';
import {
  EXIT,
  type HeardMessage,
  parseMessage,
  type ReplyContext,
  type ReplyOptions,
  type ReplyOutcome,
  toMessage,
} from './reply.ts';
import { ReplyLines, Restores } from './reply-lines.ts';
import type { FilledPrompt } from './run-memory.ts';
import { fingerprintTool, type Tool } from './tool.ts';

type CodeTask = { readonly blocks: readonly CodeBlock[]; readonly config: Exclude<CodeExecutionConfig, false> };

/** An agent whose whole state is plain data: it can be saved at any moment between two replies, and restored exactly. */
export class StandardAgent {
  readonly #tools = new Map<string, Tool>();
  readonly #model: ChatModel | LanguageModel | undefined;
  readonly #listeners = new Set<() => void>();
  #registry: AgentRegistry | undefined;
  readonly #given: GivenState;
  #state: AgentState;
  readonly #lines = new ReplyLines();
  /** How many replies are under way, and the status when none is. */
  #replies = 0;
  #rest: Partial<AgentState> = {};
  readonly #restores = new Restores();

  constructor(options: StandardAgentOptions) {
    checkAgent(options, new.target !== StandardAgent);
    if (options.model !== undefined && options.llmConfig !== undefined)
      throw new InvalidInputError(`Agent "${options.name}" has both a model and an llmConfig. Give one of them.`);
    this.#model = options.model;
    for (const tool of options.tools ?? []) this.#tools.set(tool.name, tool);
    this.#state = freezeState(createState(options, this.constructor.name));
    this.#given = givenState(options, this.#state);
  }

  get name(): string {
    return this.#state.name;
  }

  /** The class by its registered name; a checkpoint of the agent alone is found by it. */
  get agentType(): string {
    return this.#state.agentType;
  }

  get systemMessage(): string {
    return this.#state.systemMessage;
  }

  get description(): string {
    return this.#state.description;
  }

  /** What others are told of it: its description; without one, the first sentence of its prompt. */
  get introduction(): string {
    return introduce(this.#state);
  }

  get llmConfig(): LlmConfig | undefined {
    return this.#state.llmConfig ?? undefined;
  }

  get status(): AgentStatus {
    return this.#state.status;
  }

  get tools(): readonly Tool[] {
    return [...this.#tools.values()];
  }

  get model(): ChatModel | LanguageModel | undefined {
    return this.#model;
  }

  /** What the program that made this agent said of it; a restored state does not change it. */
  get given(): GivenState {
    return this.#given;
  }

  /** Gets tools that it may have to use; its own of the same name come first. */
  learnTools(tools: readonly Tool[]): void {
    for (const tool of tools) if (!this.#tools.has(tool.name)) this.#tools.set(tool.name, tool);
  }

  /** The agent's copy of a conversation. */
  history(partner: string): readonly ChatMessage[] {
    return this.#state.histories[partner] ?? [];
  }

  setStatus(to: AgentStatus): void {
    const status = changeStatus(this.#state.status, to);
    if (status !== this.#state.status)
      this.#change({ status, statusBeforePause: to === 'paused' ? this.#state.status : null });
  }

  /** Goes on where `paused` stopped it. */
  unpause(): void {
    if (this.#state.status === 'paused') this.setStatus(this.#state.statusBeforePause ?? 'running');
  }

  /** Hears a message of a conversation; without a name it is from the partner. */
  receive(message: string | HeardMessage | ChatMessage, partner: string): void {
    checkValue(partner, filledString, 'The partner of a conversation');
    const heard = toMessage(message, partner);
    this.#change({ histories: { ...this.#state.histories, [partner]: [...this.history(partner), heard] } });
  }

  /** Puts another copy of a conversation in place of the agent's own. */
  rewriteHistory(partner: string, messages: readonly ChatMessage[]): void {
    if (messages === this.history(partner)) return;
    const rewritten = messages.map((message) => toMessage(message, partner));
    this.#change({ histories: { ...this.#state.histories, [partner]: rewritten } });
  }

  /** Changes what the agent is told to be, for what-if experiments. */
  configure(override: AgentOverride): void {
    checkOverride(override, 'configure()');
    const given = withoutUndefined(override);
    this.#change({ ...given, ...overrideModel(given) });
  }

  /** Forgets how often it replied by itself. */
  resetAutoReplies(): void {
    this.#change({ autoReplies: {} });
  }

  /**
   * Replies to a message, on its own. Nothing is recorded, and if it fails the agent is as if it had not been asked. Messages of one
   * partner are replied to one after the other.
   */
  async reply(message: string | HeardMessage, options: ReplyOptions = {}): Promise<ChatMessage> {
    checkReply(options);
    const heard = parseMessage(message, this.name);
    return this.#lines.run(options.partner ?? PERSON, () => this.#replyTo(heard, options));
  }

  async #replyTo(heard: ChatMessage, options: ReplyOptions): Promise<ChatMessage> {
    const { partner = PERSON, remembers = true, signal, onText } = options;
    const before = this.#state;
    const restores = this.#restores.count;
    const { status, statusBeforePause } = before;
    if (this.#replies++ === 0) this.#rest = { status, statusBeforePause };
    let isForgotten = true;
    try {
      if (status !== 'paused') this.setStatus('running');
      this.receive(heard, partner);
      const effects = new UnrecordedEffects(options.idempotencyKey);
      const registry = options.registry ?? this.#openRegistry();
      const outcome = await this.respond({ effects, registry, partner, ask: async () => '', signal, onText });
      isForgotten = !remembers;
      this.#rest = { status: 'waiting_for_input', statusBeforePause: null };
      return outcome.message ?? { name: this.name, content: '' };
    } finally {
      if (isForgotten) this.#restores.unless(restores, () => this.#change(forgetPartner(this.#state, before, partner)));
      // Who was paused meanwhile stays so.
      if (--this.#replies === 0 && this.#state.status === 'running') this.#change(this.#rest);
    }
  }

  /** Replies with this registry unless another is given, and looks for what a restored state needs in it. */
  useRegistry(registry: AgentRegistry): AgentRegistry {
    registry.addAgent(this);
    this.#registry = registry;
    return registry;
  }

  #openRegistry(): AgentRegistry {
    return this.#registry ?? this.useRegistry(new AgentRegistry());
  }

  /**
   * Says something: what the person behind it types, what came of the code it was shown, or what its model answers. Nothing of the agent
   * changes unless the reply is complete.
   */
  async respond(context: ReplyContext): Promise<ReplyOutcome> {
    const typed = await this.#restores.outlast(this.#askPerson(context));
    if (typed === EXIT) return { silence: 'exit' };
    if (typed) return this.#say({ name: this.name, content: typed }, context.partner, 'person');
    if (typed === undefined && this.#isSpent(context.partner)) return { silence: 'limit' };
    const task = this.#codeToRun(context);
    if (task !== undefined) return this.#runCode(task, context);
    return this.#think(context);
  }

  /** Undefined if nobody is asked; empty if the person lets the agent reply. */
  async #askPerson(context: ReplyContext): Promise<string | undefined> {
    const { humanInputMode } = this.#state;
    const isAsked = humanInputMode === 'ALWAYS' || (humanInputMode === 'TERMINATE' && this.#isSpent(context.partner));
    return isAsked ? context.ask(`Reply as ${this.name}, or press Enter to let it reply by itself.`) : undefined;
  }

  #isSpent(partner: string): boolean {
    const { maxConsecutiveAutoReplies: limit, autoReplies } = this.#state;
    return limit !== null && (autoReplies[partner] ?? 0) >= limit;
  }

  /** @internal Captures the working directory before a conversation runs code, so that it can be restored to that. */
  async captureFiles(registry: AgentRegistry, signal: AbortSignal | undefined): Promise<void> {
    const config = registry.permitCode(this.#state, this.#given.codeExecution);
    if (config === false) return;
    const capturing = captureFolder(config, { cache: registry.codeParts(config).cache, signal });
    this.#change({ workspace: await this.#restores.outlast(capturing) });
  }

  /** What a state says of code is a request; without the registry's permission nothing runs. */
  #codeToRun({ partner, registry }: ReplyContext): CodeTask | undefined {
    const last = this.history(partner).at(-1);
    if (last === undefined || last.name === this.name) return undefined;
    const config = registry.permitCode(this.#state, this.#given.codeExecution);
    const blocks = config === false ? [] : extractCodeBlocks(last.content);
    return config === false || blocks.length === 0 ? undefined : { blocks, config };
  }

  async #runCode({ blocks, config }: CodeTask, context: ReplyContext): Promise<ReplyOutcome> {
    const { effects, signal, registry, partner } = context;
    const running = runCode(blocks, { name: this.name, config, ...registry.codeParts(config), effects, signal });
    const { content, code, workspace } = await this.#restores.outlast(running);
    const { totals, workspace: last } = this.#state;
    this.#change({ totals: { ...totals, codeRuns: totals.codeRuns + code.length }, workspace: workspace ?? last });
    return this.#say({ name: this.name, content, code }, partner, 'itself');
  }

  async #think(context: ReplyContext): Promise<ReplyOutcome> {
    const model = context.registry.modelFor(this.#state);
    const { defaultReply } = this.#state;
    if (model === undefined && defaultReply === '') return { silence: 'nothing_to_say' };
    if (model === undefined) return this.#say({ name: this.name, content: defaultReply }, context.partner, 'itself');
    const { effects, signal } = context;
    const onText = this.#state.runtime.stream ? context.onText : undefined;
    const prompt = await this.#restores.outlast(this.#fillPrompt(context));
    const state = this.#state;
    const thinking = takeTurn({
      state,
      model,
      systemMessage: prompt.text,
      messages: toModelMessages(this.history(context.partner), this.name),
      tools: this.#usableTools(context.registry),
      settings: state.llmConfig === null ? undefined : requestSettings(state.llmConfig),
      effects,
      signal,
      onText,
    });
    const { content, messages, totals } = await this.#restores.outlast(thinking);
    const others = this.#state.totals; // of replies that ended meanwhile
    const sum = others === state.totals ? totals : addTotals(others, subtractTotals(totals, state.totals));
    this.#change({ totals: sum, memoryIds: prompt.ids });
    return this.#say({ name: this.name, content, turn: messages }, context.partner, 'itself');
  }

  async #fillPrompt({ recall, effects, partner, signal }: ReplyContext): Promise<FilledPrompt> {
    const { systemMessage: text, name } = this.#state;
    if (recall === undefined) return { text: renderNothing(text), ids: [] };
    return recall(text, { name, heard: this.history(partner), effects, signal });
  }

  #usableTools(registry: AgentRegistry): Tool[] {
    return Object.keys(this.#state.tools).flatMap((name) => this.#tools.get(name) ?? registry.tool(name) ?? []);
  }

  /** The tools as models would be told of them now, by name; one that nobody knows any more is left out. */
  currentTools(registry: AgentRegistry): Record<string, string> {
    return Object.fromEntries(this.#usableTools(registry).map((tool) => [tool.name, fingerprintTool(tool)]));
  }

  /** The reply is in the agent's own history at once; others hear it when it is appended. */
  #say(message: ChatMessage, partner: string, by: 'person' | 'itself'): ReplyOutcome {
    const count = by === 'person' ? 0 : (this.#state.autoReplies[partner] ?? 0) + 1;
    const said = freezeState(message);
    this.#change({ autoReplies: { ...this.#state.autoReplies, [partner]: count } });
    this.receive(said, partner);
    return { message: said };
  }

  /**
   * Everything that is not code: also the public fields of a subclass, as `fields`. A subclass that overrides this may leave some out:
   * `const { client, ...fields } = this; return { ...super.saveState(), fields, custom: { ... } };`
   */
  saveState(): AgentState {
    const isPlain = this.constructor === StandardAgent && Object.keys(this).length === 0;
    const { custom, ...state } = this.#state;
    return isPlain ? this.#state : { ...state, fields: readFields(this), ...(custom !== undefined && { custom }) };
  }

  /** Puts a state back, also its `fields`; returns what could not be put back. Subclasses read their `custom` and call this. */
  loadState(state: unknown): readonly RestoreProblem[] {
    const { fields, ...parsed } = parseAgentState(state);
    this.#state = freezeState(parsed);
    this.#rest = { status: parsed.status, statusBeforePause: parsed.statusBeforePause };
    this.#restores.count++;
    return [
      ...compareTools(parsed, this.#tools),
      ...(fields === undefined ? [] : loadFields(this, fields, `$.agents.${parsed.name}.fields`)),
    ];
  }

  /** Names what the code gives the agent and a state has otherwise, or needs besides; the state is put back all the same. */
  [COMPARES_CODE](state: unknown, isCodeKept: boolean): ComparedState {
    const saved = parseAgentState(state);
    const registry = this.#openRegistry();
    this.learnTools(Object.keys(saved.tools).flatMap((name) => registry.tool(name) ?? []));
    const problems = compareGiven(this.#given, saved, { registry, isCodeKept, own: this.#tools });
    const taken = isCodeKept ? adoptGiven(this.#given, saved, this.#tools) : saved;
    if (saved.fields === undefined) return { problems, taken };
    const compared = compareFields(this, saved.fields, { at: `$.agents.${saved.name}.fields`, isCodeKept });
    return { problems: [...problems, ...compared.problems], taken: { ...taken, fields: compared.fields } };
  }

  /** Calls a listener after every change of the state, except that a whole state is loaded; returns a function that stops it. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** What `console.log` shows. */
  [Symbol.for('nodejs.util.inspect.custom')](
    _: number,
    options: object,
    inspect: (value: object, options: object) => string,
  ) {
    const { name, status, systemMessage, modelId, llmConfig, tools } = this.#state;
    const model = modelId ?? llmConfig?.model;
    const shown = { name, status, systemMessage, ...(model !== undefined && { model }), tools: Object.keys(tools) };
    return `${this.constructor.name} ${inspect({ ...shown, ...this }, options)}`;
  }

  #change(change: Partial<AgentState>): void {
    this.#state = freezeState({ ...this.#state, ...change });
    for (const listener of this.#listeners) listener();
  }
}
