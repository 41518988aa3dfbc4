import { describe, expect, test } from 'vitest';
import type { ClassCodec } from '../value/class-codec.ts';
import { CapturedValues } from './captured-values.ts';
import { type EncodedState, findIn, StateCodec } from './state-codec.ts';

class Note {
  text: unknown;
  constructor(text: unknown) {
    this.text = text;
  }
}

let encodings = 0;
const noteCodec = {
  tag: 'note',
  class: Note,
  encode: ({ text }) => {
    encodings++;
    return { text };
  },
  readsOnlyFields: { except: [] },
  decode: (data) => Object.assign(new Note(''), data),
} satisfies ClassCodec<Note> as unknown as ClassCodec;

const codec = new StateCodec({ classes: [noteCodec] });
const note = (at: number) => new Note(`${at} `.repeat(at % 3 === 0 ? 6000 : 200));
const notes = (count: number) => Array.from({ length: count }, (_, at) => note(at));
const digests = ({ chunks }: EncodedState) => new Set(chunks.map(({ digest }) => digest));

/** A state that grows by a note which was captured by itself before. */
function grow(list: readonly Note[], added: Note, change?: (added: Note) => void) {
  const before = codec.encode({ list });
  const instances = new CapturedValues();
  instances.add(codec.capture([added, 'and more']));
  change?.(added);
  encodings = 0;
  const after = codec.compose(codec.capture({ list: [...list, added] }, before, { written: instances }));
  return { before, after, instances, encodings };
}

describe('[value.2] an instance that was captured by itself', () => {
  test.each([0, 1, 2, 3, 4, 30])('is not encoded again in a list of %i', (count) => {
    for (const added of [new Note('short'), note(4), note(3)]) {
      const { before, after, encodings: again } = grow(notes(count), added);
      expect(again).toBe(0);
      expect(after.root.digest).toBe(codec.encode({ list: [...notes(count), added] }).root.digest);
      const chunks = new Map([...before.chunks, ...after.chunks].map((chunk) => [chunk.digest, chunk]));
      expect(codec.decode(after.root, findIn(chunks))).toEqual({ list: [...notes(count), added] });
    }
  });

  test('brings its chunks along, also those inside of it', () => {
    const { before, after } = grow(notes(30), note(33));
    const alone = codec.encode({ list: [...notes(30), note(33)] });
    for (const digest of digests(alone)) expect(digests(before).has(digest) || digests(after).has(digest)).toBe(true);
  });

  test('[save.2] is taken over before it was composed, as it was then', () => {
    const [before, instances, added] = [codec.encode({ list: notes(30) }), new CapturedValues(), note(33)];
    const alone = codec.capture([added]);
    instances.add(alone);
    const after = codec.capture({ list: [...notes(30), added] }, before, { written: instances });
    added.text = 'changed';
    const fresh = codec.encode({ list: [...notes(30), note(33)] });
    expect(codec.compose(after).root.digest).toBe(fresh.root.digest);
    const chunks = new Map([...fresh.chunks, ...codec.compose(after).chunks].map((chunk) => [chunk.digest, chunk]));
    expect(codec.decode(codec.compose(alone).root, findIn(chunks))).toEqual([note(33)]);
    for (const digest of digests(codec.compose(alone))) expect(digests(codec.compose(after))).toContain(digest);
  });

  test('is encoded again if it changed since', () => {
    const change = (added: Note) => Object.assign(added, { text: 'other '.repeat(100) });
    const { after, encodings: again } = grow(notes(30), note(31), change);
    expect(again).toBe(1);
    expect(after.root.digest).toBe(codec.encode({ list: [...notes(30), new Note('other '.repeat(100))] }).root.digest);
  });

  test('is given out once: what two states share could be stored with one of them alone', () => {
    const added = note(31);
    const { instances } = grow(notes(30), added);
    expect(instances.take(added)).toBeUndefined();
    const other = codec.encode({ list: notes(2) });
    const { chunks } = codec.compose(codec.capture({ list: [...notes(20), added] }, other, { written: instances }));
    expect(chunks.some(({ text }) => text.includes('31 31 31'))).toBe(true);
  });

  test('is forgotten when many came after it', () => {
    const instances = new CapturedValues();
    const first = note(1);
    instances.add(codec.capture([first]));
    instances.add(codec.capture(notes(40)));
    expect(instances.take(first)).toBeUndefined();
    instances.add(codec.capture([first]));
    instances.clear();
    expect(instances.take(first)).toBeUndefined();
  });
});
