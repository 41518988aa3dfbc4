import type { StateCodec } from '../../core/codec/state-codec.ts';
import { ConflictError, InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { accepts, checkOptions, type OptionChecks, wholeFrom } from '../../core/options.ts';
import { redactText } from '../../manager/engine/save-options.ts';
import type { FoldedMemory } from '../log/fold.ts';
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
import {
  type TaughtSessions,
  TEACHER_CHECKS,
  type TeacherOptions,
  VIEW_CHECKS,
  type View,
  type ViewOptions,
} from '../log/views.ts';
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
  memory: accepts('text that is not blank', (value) => typeof value === 'string' && value.trim() !== ''),
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

type Edit = {
  readonly see: (sessions: TaughtSessions) => Promise<View>;
  readonly expectedVersion?: number | undefined;
  readonly change: (memory: FoldedMemory) => Omit<NewMemoryEvent, 'memoryId' | 'scope' | 'atMs'>;
};

export async function update(
  context: MemoryContext,
  [id, given]: readonly [id: string, change: string | MemoryChange],
  options: ChangeOptions,
): Promise<void> {
  const change = typeof given === 'string' ? { memory: given } : given;
  checkOptions(change, CHANGE_CHECKS, 'the change of update()');
  checkOptions(options, OPTION_CHECKS, 'update()');
  if (Object.values(change).every((value) => value === undefined))
    throw new InvalidInputError(
      'Nothing would change. Say what is to be different: memory, metadata, expirationDate, isPinned or confidence.',
    );
  const common = await begin(context, options);
  const events = await edit(context, id, {
    ...seenFrom(context, common, options),
    change: ({ fields }) => ({
      operation: 'UPDATE',
      fields: changedFields(fields, change, context.codec),
      previous: fields.content,
      ...common,
    }),
  });
  context.vectors.add(events);
}

export async function remove(context: MemoryContext, id: string, options: ChangeOptions): Promise<void> {
  checkOptions(options, OPTION_CHECKS, 'delete()');
  const common = await begin(context, options);
  await edit(context, id, {
    ...seenFrom(context, common, options),
    change: ({ fields }) => ({ operation: 'RETRACT', previous: fields.content, ...common }),
  });
}

/** Retracts everything visible of a scope; returns how many that were. */
export async function removeAll(context: MemoryContext, options: ScopeChangeOptions = {}): Promise<number> {
  checkOptions(options, { ...SCOPE_CHECKS, ...TEACHER_CHECKS, ...WHY_CHECKS }, 'deleteAll()');
  const common = { ...(await begin(context, options)), atMs: context.now() };
  const memories = await readVisible(context, parseScope(options), common.place);
  const events = memories.map((memory) => retract(memory, common));
  if (events.length > 0) await context.storage.append(events);
  return events.length;
}

/** Lets a memory be seen from every branch, as it is seen from here. */
export async function promote(context: MemoryContext, id: string, options: PromoteOptions): Promise<void> {
  checkOptions(options, { ...VIEW_CHECKS, ...WHY_CHECKS }, 'promote()');
  const why = redactWhy(options, context.codec);
  const events = await edit(context, id, {
    see: (sessions) => context.views.open(options, sessions),
    change: ({ fields }) => ({ operation: 'PROMOTE', fields, ...why }),
  });
  context.vectors.add(events);
}

type Learned = Pick<NewMemoryEvent, 'place' | keyof WhyOptions>;

/** Where a change is learned, by whom and why, in the form in which it is stored. */
async function begin(
  { codec, views }: MemoryContext,
  options: Omit<ChangeOptions, 'expectedVersion'>,
): Promise<Learned> {
  refuseSecrets({ session: options.session?.id, branch: options.session?.branch }, codec);
  return { place: await views.place(options), ...redactWhy(options, codec) };
}

function seenFrom({ views }: MemoryContext, { place }: Learned, { expectedVersion }: ChangeOptions) {
  return { expectedVersion, see: (sessions: TaughtSessions) => views.ofPlace(place, sessions) };
}

async function readVisible(
  { logs, views }: MemoryContext,
  scope: MemoryScope,
  place: EventPlace | undefined,
): Promise<FoldedMemory[]> {
  const log = await logs.open(scope);
  return [...log.see(await views.ofPlace(place, log.sessions)).memories.values()];
}

/** Appends on top of what was read, and reads again if someone was faster. */
async function edit(
  context: MemoryContext,
  id: string,
  { see, expectedVersion, change }: Edit,
): Promise<readonly MemoryEvent[]> {
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const { events, memory } = await context.views.history(id, see);
    if (memory === undefined) throw notFound(id, events);
    if (expectedVersion !== undefined && expectedVersion !== memory.version) throw conflict(memory, expectedVersion);
    const event = { ...change(memory), memoryId: id, scope: memory.scope, atMs: context.now() };
    const expectations = [{ memoryId: id, lastSeq: events.at(-1)?.seq ?? 0 }];
    const result = await context.storage.append([event, ...(await outdatedBy(context, event))], { expectations });
    if (result.status === 'stored') return result.events;
  }
  throw new ConflictError(`Others keep changing memory ${id}, so it was not changed. Try again.`, { details: { id } });
}

/** What was taken from words that are taken back, and from nothing else, is taken back with them. */
async function outdatedBy(context: MemoryContext, event: NewMemoryEvent): Promise<NewMemoryEvent[]> {
  const isTakenBack =
    event.operation === 'RETRACT' || (event.operation === 'UPDATE' && event.fields?.content !== undefined);
  if (!isTakenBack) return [];
  const { scope, place, atMs, actor, memoryId } = event;
  const isOutdated = ({ fields: { derivedFrom = [] }, reinforcements }: FoldedMemory) =>
    derivedFrom.length > 0 && derivedFrom.every((id) => id === memoryId) && reinforcements === 0;
  const common = { place, atMs, actor, reason: `its source ${memoryId} was taken back` };
  const memories = await readVisible(context, scope, place);
  return memories.filter(isOutdated).map((memory) => retract(memory, common));
}

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
