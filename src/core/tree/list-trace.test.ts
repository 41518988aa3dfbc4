import fc from 'fast-check';
import { expect, test } from 'vitest';
import { drawn } from '../../../test/support/trials.ts';
import { type EncodedState, StateCodec } from '../codec/state-codec.ts';
import type { ClassCodec } from '../value/class-codec.ts';

type Note = { text: unknown; tags?: unknown[]; inner: { at: unknown }; [key: string]: unknown };

class Message implements Note {
  text: unknown;
  tags: unknown[] = [];
  inner: { at: unknown };
  [key: string]: unknown;
  constructor(text: unknown) {
    this.text = text;
    this.inner = { at: text };
  }
}

const messageCodec = {
  tag: 'message',
  class: Message,
  encode: (message) => ({ ...message }),
  readsOnlyFields: { except: [] },
  decode: (data) => Object.assign(new Message(0), data),
} satisfies ClassCodec<Message>;

const codec = new StateCodec({ classes: [messageCodec as unknown as ClassCodec] });

const odd = fc.constantFrom(0, -0, Number.NaN, '', 'a', undefined, null, 1);

/** One way to change a list or what is in it; `at` is taken modulo its length. */
const edit = fc.record({
  kind: fc.constantFrom(
    'push',
    'pushPlain',
    'drop',
    'replace',
    'setText',
    'setInner',
    'tag',
    'addField',
    'deleteField',
    'swap',
    'none',
  ),
  at: fc.nat(50),
  value: odd,
});

type Edit = { readonly kind: string; readonly at: number; readonly value: unknown };

const EDITS: { readonly [kind: string]: (list: Note[], at: number, value: unknown) => unknown } = {
  push: (list, _, value) => list.push(new Message(value)),
  pushPlain: (list, _, value) => list.push({ text: value, inner: { at: value } }),
  drop: (list, at) => list.splice(at, 1),
  replace: (list, at, value) => list.splice(at, 1, new Message(value)),
  setText: (list, at, value) => withNote(list, at, (note) => (note.text = value)),
  setInner: (list, at, value) => withNote(list, at, (note) => (note.inner.at = value)),
  tag: (list, at, value) => withNote(list, at, (note) => note.tags?.push(value)),
  addField: (list, at, value) => withNote(list, at, (note) => (note.more = value)),
  deleteField: (list, at) => withNote(list, at, (note) => delete note.tags),
  swap: (list, at) => list.push(...list.splice(at, 1)),
};

function withNote(list: Note[], at: number, change: (note: Note) => unknown): void {
  const note = list[at];
  if (note !== undefined) change(note);
}

function apply(list: Note[], { kind, at, value }: Edit): Note[] {
  const changed = [...list];
  if (list.length > 0 || kind.startsWith('push')) EDITS[kind]?.(changed, at % Math.max(1, list.length), value);
  return changed;
}

test('[value.2] a list of instances that is changed in place anywhere is encoded as a fresh one is', () => {
  fc.assert(
    fc.property(fc.nat(40), fc.array(edit, { maxLength: 20 }), (length, edits) => {
      let list: Note[] = Array.from({ length }, (_, at) => new Message(at));
      let encoded = codec.encode({ list });
      for (const change of edits) {
        list = apply(list, change);
        encoded = codec.encode({ list }, encoded);
        expect(encoded.root.digest).toBe(codec.encode({ list }).root.digest);
      }
    }),
    drawn(3_000),
  );
});

test('[value.2] states that are each encoded against the same one before do not take what they know of it from each other', () => {
  fc.assert(
    fc.property(fc.nat(40), fc.array(edit, { minLength: 2, maxLength: 8 }), (length, edits) => {
      const list: Note[] = Array.from({ length }, (_, at) => new Message(at));
      const before: EncodedState = codec.encode({ list });
      for (const change of edits) {
        const fork = apply(list, change);
        expect(codec.encode({ list: fork }, before).root.digest).toBe(codec.encode({ list: fork }).root.digest);
      }
    }),
    drawn(3_000),
  );
});

const fieldEdit = fc.record({
  kind: fc.constantFrom('set', 'add', 'drop', 'first', 'freeze', 'inner', 'copy'),
  at: fc.nat(200),
  value: odd,
});

const FIELD_EDITS: {
  readonly [kind: string]: (docs: { [key: string]: unknown }, key: string, value: unknown) => object;
} = {
  set: (docs, key, value) => ({ ...docs, [key]: { text: value } }),
  add: (docs, key, value) => Object.assign(docs, { [`${key}x`]: value }),
  drop: (docs, key) => Object.fromEntries(Object.entries(docs).filter(([name]) => name !== key)),
  first: (docs, key, value) => ({ [`a${key}`]: value, ...docs }),
  freeze: (docs) =>
    Object.freeze(Object.fromEntries(Object.entries(docs).map(([key, doc]) => [key, Object.freeze(doc)]))),
  inner: (docs, key, value) => {
    const doc = docs[key];
    if (typeof doc === 'object' && doc !== null && !Object.isFrozen(doc)) Object.assign(doc, { text: value });
    return docs;
  },
  copy: (docs) => ({ ...docs }),
};

test('[value.2] an object with many keys that is changed anywhere is encoded as a fresh one is', () => {
  fc.assert(
    fc.property(fc.integer({ min: 28, max: 200 }), fc.array(fieldEdit, { maxLength: 12 }), (length, edits) => {
      let docs: object = Object.fromEntries(
        Array.from({ length }, (_, at) => [`doc ${at}`, { text: `${at} `.repeat(20) }]),
      );
      let encoded = codec.encode({ docs });
      for (const { kind, at, value } of edits) {
        const fields = Object.isFrozen(docs) && kind !== 'freeze' ? { ...docs } : docs;
        const keys = Object.keys(fields);
        docs = FIELD_EDITS[kind]?.(fields as { [key: string]: unknown }, keys[at % keys.length] ?? '', value) ?? docs;
        encoded = codec.encode({ docs }, encoded);
        expect(encoded.root.digest).toBe(codec.encode({ docs }).root.digest);
        expect(encoded.sizeBytes).toBe(codec.encode({ docs }).sizeBytes);
      }
    }),
    drawn(2_000),
  );
});

test('[value.2] a look into a long list finds what is new at once, and what was changed in place when its turn comes', () => {
  const look = { recent: 10, inTurn: 25 };
  let list: Note[] = Array.from({ length: 100 }, (_, at) => new Message(at));
  const [old, last, replaced] = [list[70], list[95], new Message('replaced')];
  let encoded = codec.encode({ list });
  const save = () => {
    list = [...list, new Message('next')];
    encoded = codec.compose(codec.capture({ list }, encoded, { look }));
    return encoded.root.digest === codec.encode({ list }).root.digest;
  };
  expect(save()).toBe(true);
  Object.assign(last as Note, { text: 'changed' });
  list = list.with(3, replaced);
  expect(save()).toBe(true);
  Object.assign(old as Note, { text: 'changed' });
  expect([save(), save(), save(), save(), save()]).toContain(true);
  expect(save()).toBe(true);
});
