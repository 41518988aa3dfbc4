import { applyEvent, type FoldedMemory, holdsAt, sinceMs } from '../log/fold.ts';
import { counterpartOf, endedBy, isExclusive, speaksOfSame } from '../log/slots.ts';
import { scopeKey } from '../storage/event-row.ts';
import type { MemoryFields, MemoryScope } from '../storage/memory-record.ts';
import type { EventPlace, MemoryEvent, NewMemoryEvent } from '../storage/memory-storage.ts';
import { includesTerms, isAbout, isInstead, isOpposite } from './likeness.ts';
import type { Proposal } from './proposal.ts';

/** What became of a proposal. `NONE`: it was there already, from the same source. */
export type Decision = {
  readonly id: string;
  readonly fields: MemoryFields;
  readonly event: 'ADD' | 'REINFORCE' | 'NONE';
};

type DecisionContext = {
  readonly scope: MemoryScope;
  readonly place: EventPlace | undefined;
  readonly nowMs: number;
  readonly actor: string | undefined;
  readonly reason: string | undefined;
  readonly newId: () => string;
  /** The turn before the first one. */
  readonly previousId: string | undefined;
};

/**
 * Decides, one proposal after the other, what is new, what was known, and what it replaces. Nothing is overwritten: what is known
 * is reinforced, and only a memory of the same subject and slot is superseded.
 */
export class Decisions {
  readonly #context: DecisionContext;
  readonly #byKey: ReadonlyMap<string, string>;
  /** What is visible and may be touched: only memories of exactly this scope. */
  readonly #known = new Map<string, FoldedMemory>();
  readonly #byHash = new Map<string, string[]>();
  readonly #decided: Decision[] = [];
  readonly events: NewMemoryEvent[] = [];
  #previousId: string | undefined;

  constructor(
    context: DecisionContext,
    { visible, related }: { visible: Iterable<FoldedMemory>; related: readonly MemoryEvent[] },
  ) {
    this.#context = context;
    this.#previousId = context.previousId;
    this.#byKey = new Map(related.flatMap(({ key, memoryId }) => (key === undefined ? [] : [[key, memoryId]])));
    const own = scopeKey(context.scope);
    for (const memory of visible) if (scopeKey(memory.scope) === own) this.#know(memory);
  }

  decide(proposal: Proposal): Decision {
    const decision = this.#decide(proposal);
    this.#decided.push(decision);
    if (decision.fields.kind === 'episode') this.#previousId = decision.id;
    return decision;
  }

  #decide({ fields, key, source }: Proposal): Decision {
    const storedId = key === undefined ? undefined : this.#byKey.get(key);
    if (storedId !== undefined) return { id: storedId, fields, event: 'NONE' };
    const linked = this.#link(fields, source);
    const same = this.#findSame(linked);
    if (same !== undefined) return this.#append('REINFORCE', same, { fields: linked, key });
    const id = this.#context.newId();
    const dated = this.#supersede(id, linked);
    return this.#append('ADD', id, { fields: dated, key });
  }

  #link(fields: MemoryFields, source: number | undefined): MemoryFields {
    const sourceId = source === undefined ? undefined : this.#decided[source]?.id;
    return {
      ...fields,
      ...(sourceId !== undefined && { derivedFrom: [sourceId] }),
      ...(fields.kind === 'episode' && this.#previousId !== undefined && { previousId: this.#previousId }),
    };
  }

  /** The same words, or, for what follows from turns, nearly the same words of the same kind, as long as they still hold. */
  #findSame(fields: MemoryFields): string | undefined {
    const equal = this.#byHash.get(fields.hash)?.find((id) => this.#holds(id, fields));
    if (equal !== undefined || fields.kind === 'episode') return equal;
    return [...this.#known.values()].find(
      (memory) =>
        isAlike(memory.fields, fields) &&
        includesTerms(memory.fields.content, fields.content) &&
        !isOpposite(memory.fields.content, fields.content) &&
        this.#holds(memory.id, fields),
    )?.id;
  }

  #holds(id: string, { observedAtMs }: MemoryFields): boolean {
    const memory = this.#known.get(id);
    return memory !== undefined && holdsAt(memory, observedAtMs);
  }

  #know(memory: FoldedMemory): void {
    this.#known.set(memory.id, memory);
    const { hash } = memory.fields;
    this.#byHash.set(hash, [...(this.#byHash.get(hash) ?? []), memory.id]);
  }

  /** Closes what it contradicts; if that began to hold later, it is the new one that no longer holds. */
  #supersede(id: string, fields: MemoryFields): MemoryFields {
    if (fields.kind === 'episode') return fields;
    let dated = fields;
    for (const memory of this.#known.values()) {
      if (!contradicts(fields, memory.fields) || !holdsAt(memory, fields.observedAtMs)) continue;
      if (sinceMs(memory.fields) <= sinceMs(fields)) this.#close(memory, { id, fields });
      else if (endedBy(fields.slot) !== undefined) continue;
      else dated = { ...dated, validToMs: sinceMs(memory.fields), supersededBy: memory.id };
    }
    return dated;
  }

  #close(memory: FoldedMemory, { id, fields }: { id: string; fields: MemoryFields }): void {
    const closed = { validToMs: sinceMs(fields), supersededBy: id };
    this.#known.set(memory.id, { ...memory, fields: { ...memory.fields, ...closed } });
    this.events.push({
      ...this.#common,
      memoryId: memory.id,
      operation: 'SUPERSEDE',
      fields: closed,
      previous: memory.fields.content,
    });
  }

  #append(
    operation: 'ADD' | 'REINFORCE',
    memoryId: string,
    { fields, key }: { fields: MemoryFields; key: string | undefined },
  ): Decision {
    const event = { ...this.#common, memoryId, operation, fields, key };
    this.events.push(event);
    const added = operation === 'ADD' ? applyEvent(undefined, { ...event, seq: 0 }) : undefined;
    if (added !== undefined) this.#know(added);
    return { id: memoryId, fields, event: operation };
  }

  get #common(): Pick<NewMemoryEvent, 'scope' | 'place' | 'atMs' | 'actor' | 'reason'> {
    const { scope, place, nowMs, actor, reason } = this.#context;
    return { scope, place, atMs: nowMs, actor, reason };
  }
}

/** Whether the newer memory leaves no room for the older one: the same slot of the same subject, the end of what was in it, that again, or the opposite. */
function contradicts(newer: MemoryFields, older: MemoryFields): boolean {
  if (older.kind === 'episode' || older.subject !== newer.subject) return false;
  if (older.slot === undefined) return isTakenBack(older, newer);
  if (newer.slot === undefined || newer.slot !== counterpartOf(older.slot))
    return older.slot === newer.slot && isExclusive(older.slot);
  const isEnd = endedBy(newer.slot) !== undefined;
  const [ending, value] = isEnd ? [newer, older] : [older, newer];
  return speaksOfSame(value.slot ?? '', ending.content, value.content);
}

function isTakenBack(older: MemoryFields, newer: MemoryFields): boolean {
  if (isAlike(older, newer) && isOpposite(older.content, newer.content)) return true;
  return older.kind === newer.kind && newer.slot === undefined && isInstead(newer.content, older.content);
}

function isAlike(first: MemoryFields, second: MemoryFields): boolean {
  const isSameSort = first.subject === second.subject && first.kind === second.kind && first.slot === second.slot;
  return isSameSort && isAbout(first.content, second.content);
}
