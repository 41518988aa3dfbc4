import type { StateCodec } from '../../core/codec/state-codec.ts';
import { ConflictError, InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { checkOptions, type OptionChecks, string, wholeFrom } from '../../core/options.ts';
import { redactText } from '../../manager/engine/save-options.ts';
import { type FoldedMemory, foldMemory } from '../log/fold.ts';
import type { MemoryContext } from '../log/memory-context.ts';
import {
  checkContent,
  encodeMetadata,
  FIELD_CHECKS,
  hashContent,
  parseScope,
  redactWhy,
  refuseSecrets,
  SCOPE_CHECKS,
  WHY_CHECKS,
  type WhyOptions,
} from '../log/memory-input.ts';
import { TEACHER_CHECKS, type TeacherOptions, VIEW_CHECKS, type ViewOptions } from '../log/views.ts';
import type { MemoryFields, MemoryScope } from '../storage/memory-record.ts';
import type { EventPlace, MemoryEvent, NewMemoryEvent } from '../storage/memory-storage.ts';

/** What is to be different. */
export type MemoryChange = {
  readonly memory?: string;
  readonly metadata?: { readonly [key: string]: unknown };
  readonly expirationDate?: Date;
  readonly isPinned?: boolean;
  readonly confidence?: number;
};

const CHANGE_CHECKS: OptionChecks<MemoryChange> = {
  ...FIELD_CHECKS,
  memory: string,
  content: { renamedTo: 'memory' },
  text: { renamedTo: 'memory' },
};

/** Who changes it, why, where that was learned, and on which version the change stands. */
export type ChangeOptions = TeacherOptions &
  WhyOptions & {
    /** The `version` that was read; if it is another by now, nothing is changed and a ConflictError says so. */
    readonly expectedVersion?: number;
  };

/** The changes of a whole scope have no version. */
export type ScopeChangeOptions = MemoryScope & Omit<ChangeOptions, 'expectedVersion'>;

/** From where a memory is promoted, by whom and why. */
export type PromoteOptions = ViewOptions & WhyOptions;

const OPTION_CHECKS = {
  ...TEACHER_CHECKS,
  ...WHY_CHECKS,
  expectedVersion: wholeFrom(0),
} satisfies OptionChecks<ChangeOptions>;

/** Each failed attempt means that someone else's change was stored. */
const MAX_ATTEMPTS = 20;

type Edit = (memory: FoldedMemory) => Omit<NewMemoryEvent, 'memoryId' | 'scope' | 'atMs'>;

/** Changes memories, by adding events to them. */
export class Editing {
  readonly #context: MemoryContext;

  constructor(context: MemoryContext) {
    this.#context = context;
  }

  async update(id: string, given: string | MemoryChange, options: ChangeOptions): Promise<void> {
    const change = typeof given === 'string' ? { memory: given } : given;
    checkOptions(change, CHANGE_CHECKS, 'the change of update()');
    checkOptions(options, OPTION_CHECKS, 'update()');
    if (Object.values(change).every((value) => value === undefined))
      throw new InvalidInputError(
        'Nothing would change. Say what is to be different: memory, metadata, expirationDate, isPinned or confidence.',
      );
    const { expectedVersion } = options;
    const common = await this.#begin(options);
    const events = await this.#edit(id, { ...common, expectedVersion }, (memory) => ({
      operation: 'UPDATE',
      fields: changedFields(memory.fields, change, this.#context.codec),
      previous: memory.fields.content,
      ...common,
    }));
    this.#context.vectors.add(events);
  }

  async delete(id: string, options: ChangeOptions): Promise<void> {
    checkOptions(options, OPTION_CHECKS, 'delete()');
    const { expectedVersion } = options;
    const common = await this.#begin(options);
    await this.#edit(id, { ...common, expectedVersion }, ({ fields }) => ({
      operation: 'RETRACT',
      previous: fields.content,
      ...common,
    }));
  }

  /** Retracts everything visible of a scope; returns how many that were. */
  async deleteAll(options: ScopeChangeOptions = {}): Promise<number> {
    checkOptions(options, { ...SCOPE_CHECKS, ...TEACHER_CHECKS, ...WHY_CHECKS }, 'deleteAll()');
    const common = { ...(await this.#begin(options)), atMs: this.#context.now() };
    const log = await this.#context.logs.open(parseScope(options));
    const { memories } = log.see(await this.#context.views.ofPlace(common.place, log.sessions));
    const events = [...memories.values()].map((memory) => retract(memory, common));
    if (events.length > 0) await this.#context.storage.append(events);
    return events.length;
  }

  /** Lets a memory be seen from every branch, as it is seen from here. */
  async promote(id: string, options: PromoteOptions): Promise<void> {
    checkOptions(options, { ...VIEW_CHECKS, ...WHY_CHECKS }, 'promote()');
    const { actor: _actor, reason: _reason, ...from } = options;
    const why = redactWhy(options, this.#context.codec);
    const events = await this.#edit(id, { from }, ({ fields }) => ({ operation: 'PROMOTE', fields, ...why }));
    this.#context.vectors.add(events);
  }

  /** Where a change is learned, by whom and why, in the form in which it is stored. */
  async #begin(
    options: Omit<ChangeOptions, 'expectedVersion'>,
  ): Promise<Pick<NewMemoryEvent, 'place' | keyof WhyOptions>> {
    const { codec, views } = this.#context;
    refuseSecrets({ session: options.session?.id, branch: options.session?.branch }, codec);
    return { place: await views.place(options), ...redactWhy(options, codec) };
  }

  /** Appends on top of what was read, and reads again if someone was faster. */
  async #edit(
    id: string,
    {
      place,
      from,
      expectedVersion,
    }: { place?: EventPlace | undefined; from?: ViewOptions; expectedVersion?: number | undefined },
    edit: Edit,
  ): Promise<readonly MemoryEvent[]> {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      const events = await this.#context.storage.readEvents({ memoryIds: [id] });
      const memory = await this.#fold(events, { place, from });
      if (memory === undefined) throw notFound(id, events);
      if (expectedVersion !== undefined && expectedVersion !== memory.version) throw conflict(memory, expectedVersion);
      const event = { ...edit(memory), memoryId: id, scope: memory.scope, atMs: this.#context.now() };
      const lastSeq = events.at(-1)?.seq ?? 0;
      const outdated = await this.#outdatedBy(event);
      const result = await this.#context.storage.append([event, ...outdated], {
        expectations: [{ memoryId: id, lastSeq }],
      });
      if (result.status === 'stored') return result.events;
    }
    throw new ConflictError(`Others keep changing memory ${id}, so it was not changed. Try again.`, {
      details: { id },
    });
  }

  /** What was taken from words that are taken back, and from nothing else, is taken back with them. */
  async #outdatedBy(event: NewMemoryEvent): Promise<NewMemoryEvent[]> {
    const isTakenBack =
      event.operation === 'RETRACT' || (event.operation === 'UPDATE' && event.fields?.content !== undefined);
    if (!isTakenBack) return [];
    const log = await this.#context.logs.open(event.scope);
    const { memories } = log.see(await this.#context.views.ofPlace(event.place, log.sessions));
    const isOutdated = ({ fields: { derivedFrom = [] }, reinforcements }: FoldedMemory) =>
      derivedFrom.length > 0 && derivedFrom.every((id) => id === event.memoryId) && reinforcements === 0;
    const { place, atMs, actor } = event;
    const common = { place, atMs, actor, reason: `its source ${event.memoryId} was taken back` };
    return [...memories.values()].filter(isOutdated).map((memory) => retract(memory, common));
  }

  async #fold(
    events: readonly MemoryEvent[],
    { place, from }: { place: EventPlace | undefined; from: ViewOptions | undefined },
  ): Promise<FoldedMemory | undefined> {
    const { views } = this.#context;
    const sessions = await views.sessionsOf(events);
    const view = from === undefined ? await views.ofPlace(place, sessions) : await views.open(from, sessions);
    return foldMemory(events.filter(view.sees));
  }
}

/** The event that takes a memory back. */
function retract(
  { id, scope, fields }: FoldedMemory,
  common: Pick<NewMemoryEvent, 'place' | 'atMs' | 'actor' | 'reason'>,
): NewMemoryEvent {
  return { ...common, memoryId: id, operation: 'RETRACT', scope, previous: fields.content };
}

function changedFields(before: MemoryFields, change: MemoryChange, codec: StateCodec): Partial<MemoryFields> {
  const { metadata, expirationDate, isPinned, confidence } = change;
  const memory = change.memory === undefined ? undefined : redactText(checkContent(change.memory), codec);
  const { subject, kind } = before;
  return {
    ...(memory !== undefined && {
      content: memory,
      hash: hashContent(memory, { subject, isEpisode: kind === 'episode' }),
      kind,
      subject,
      ...(before.slot !== undefined && { slot: before.slot }),
    }),
    ...(metadata !== undefined && { metadata: encodeMetadata(metadata, codec) }),
    ...(expirationDate !== undefined && { expiresAtMs: expirationDate.getTime() }),
    ...(isPinned !== undefined && { isPinned }),
    ...(confidence !== undefined && { confidence }),
  };
}

/** There is no memory with this id, or none that is visible. */
export function notFound(id: string, events: readonly MemoryEvent[]): NotFoundError {
  const hint =
    events.length === 0
      ? 'There is none with this id.'
      : 'It was deleted, or learned on a branch that is not visible from here.';
  return new NotFoundError(`Memory ${id} was not found. ${hint}`, { details: { id } });
}

function conflict({ id, version }: FoldedMemory, expected: number): ConflictError {
  return new ConflictError(
    `Memory ${id} changed from version ${expected} to ${version} meanwhile. Read it again and retry.`,
    { details: { id, expected, found: version } },
  );
}
