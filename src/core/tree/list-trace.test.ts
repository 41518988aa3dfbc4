import fc from 'fast-check';
import { expect, test } from 'vitest';
import { trials } from '../../../test/support/values.ts';
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
    { numRuns: trials(3_000) },
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
    { numRuns: trials(3_000) },
  );
});
