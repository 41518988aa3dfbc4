import { createHash } from 'node:crypto';
import { deflateRawSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LATER } from '../../../test/support/later.ts';
import type { Digest } from '../../core/tree/chunk.ts';
import type { NewCheckpoint } from '../contract.ts';
import { readRefs } from './chunk-numbers.ts';
import { DICTIONARY_1 } from './compression-dictionary.ts';
import {
  decodeRecord,
  decodeText,
  encodeCompressed,
  encodePlain,
  encodeRecord,
  packDigest,
  packRefs,
} from './sqlite-codec.ts';

test('dictionary 1 never changes, or every text compressed with it is lost', () => {
  expect(createHash('sha256').update(DICTIONARY_1).digest('hex')).toBe(
    '01963a01f3c06726639ebfd3d8f12dc91ccfbd5dd436d53ad43c02792a82f6e8',
  );
});

test.each([encodePlain, encodeCompressed])('%o loses no character', (encode) => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 2000 }), (text) => {
      expect(decodeText(encode(text))).toBe(text);
    }),
  );
  expect(decodeText(encode('a\0b'.repeat(100)))).toBe('a\0b'.repeat(100));
});

test('only what gets smaller is compressed', () => {
  expect(encodeCompressed('{"role":"user"}')).toBe('{"role":"user"}');
  const noise = createHash('sha512').update('x').digest().toString('latin1');
  expect(decodeText(encodeCompressed(noise))).toBe(noise);
  const message = JSON.stringify({ role: 'assistant', content: 'Here is the report you asked for. '.repeat(5) });
  expect((encodeCompressed(message) as Uint8Array).length).toBeLessThan(message.length / 3);
});

const PARENT = { parentId: `chk_${'0'.repeat(22)}`, parentDigest: 'ab'.repeat(32) };
const HEADER = { id: `chk_${'1'.repeat(22)}`, sessionId: 's', branch: 'main', ...PARENT, sequence: 2, type: 'manual' };
const ENDING = {
  timestampMs: 17,
  schemaVersion: 3,
  effectCount: 1,
  effectsInFlight: [0],
  stateDigest: 'cd'.repeat(32),
};

/** A record as it is stored and read back, and whether it was packed. */
function storedRecord(header: object, encode = encodePlain): { body: string; found: string; isPacked: boolean } {
  const body = JSON.stringify(header);
  const given = { header, body, digest: 'ab'.repeat(32), root: { text: '1', refs: [] } } as unknown as NewCheckpoint;
  const stored = encodeRecord(given, encode);
  const { id, sessionId: session, branch, timestampMs } = given.header;
  const found = decodeRecord({ id, session, branch, timestampMs, body: stored });
  return { body, found, isPacked: typeof stored !== 'string' && stored[0] === 2 };
}

test.each([encodePlain, encodeCompressed])('a record is packed, and read back as it was, %o', (encode) => {
  const metadata = {
    timestampMs: 17,
    stateDigest: 'cd'.repeat(32),
    '"sequence":': ',"timestampMs":17,',
    line: 'a\nö😀',
  };
  for (const said of [{}, { note: 'ö', metadata }, { metadata: { nested: HEADER } }]) {
    const { body, found, isPacked } = storedRecord({ ...HEADER, ...said, ...ENDING, stateBytes: 12 }, encode);
    expect(found).toBe(body);
    if (encode === encodePlain) expect(isPacked).toBe(true);
  }
});

test('a record that is written otherwise is kept as it is', () => {
  const whole = { ...HEADER, ...ENDING, stateBytes: 12 };
  const { parentId: _, parentDigest: __, ...root } = whole;
  const others = [
    root,
    { ...whole, sessionId: 'a "b"' },
    { ...whole, parentId: 'chk_ö' },
    { ...whole, parentDigest: 'AB'.repeat(32) },
    { ...whole, timestampMs: 1.5 },
    { ...whole, stateBytes: 1e30 },
    { ...whole, later: 1 },
    { ...ENDING, ...HEADER, stateBytes: 1 },
  ];
  for (const header of others) {
    const { body, found, isPacked } = storedRecord(header);
    expect(found).toBe(body);
    expect(isPacked).toBe(false);
  }
});

test('damaged, unknown and oversized texts are CORRUPT', LATER, () => {
  const bomb = deflateRawSync(Buffer.alloc(257 * 1024 * 1024), { dictionary: DICTIONARY_1 });
  for (const stored of [Buffer.of(), Buffer.of(9, 1), Buffer.of(1, 255, 255), Buffer.concat([Buffer.of(1), bomb])]) {
    expect(() => decodeText(stored)).toThrow(expect.objectContaining({ code: 'CORRUPT' }));
  }
});

test('digests and lists of references are checked on both sides', () => {
  const digest = 'ab'.repeat(32) as Digest;
  expect(() => packDigest('ab')).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
  expect(() => packRefs(['zz'.repeat(32) as Digest])).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
  expect(() => packRefs([`${digest}a` as Digest, digest])).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
  expect(() => readRefs(new Uint8Array(35))).toThrow(expect.objectContaining({ code: 'CORRUPT' }));
  expect(() => readRefs(Uint8Array.of(1, 200))).toThrow(expect.objectContaining({ code: 'CORRUPT' }));
  expect(readRefs(Uint8Array.of(1, 5, 0x80, 1)).numbers).toEqual([5, 128]);
});
