import { describe, expect, test } from 'vitest';
import { findIn, StateCodec } from './state-codec.ts';

const codec = new StateCodec();
const refused = expect.objectContaining({ code: 'INVALID_INPUT', details: { path: '$.a' } });

describe('[value.5] what would come back as something else is refused with its path', () => {
  test.each([
    ['an array without a prototype', Object.setPrototypeOf([1, 2], null)],
    ['an array that calls itself an object', Object.setPrototypeOf([1, 2], Object.prototype)],
    ['a map without a prototype', Object.setPrototypeOf(new Map([[1, 2]]), null)],
    ['a date without a prototype', Object.setPrototypeOf(new Date(0), null)],
    ['an error without a prototype', Object.setPrototypeOf(new Error('x'), null)],
    ['an object that calls itself an array', Object.create(Array.prototype)],
    ['an object that calls itself bytes', Object.create(Uint8Array.prototype)],
    ['an object that calls itself a buffer', Object.create(Buffer.prototype)],
    ['an object that calls itself an ArrayBuffer', Object.create(ArrayBuffer.prototype)],
    ['an object that calls itself an error', Object.create(Error.prototype)],
    ['an object that calls itself a TypeError', Object.create(TypeError.prototype)],
    ['an object that calls itself a URL', Object.create(URL.prototype)],
    ['an object that calls itself a regular expression', Object.create(RegExp.prototype)],
    ['bytes that call themselves numbers of eight', Object.setPrototypeOf(new Uint8Array(3), Float64Array.prototype)],
  ])('%s', (_, a) => {
    expect(() => codec.encode({ a })).toThrow(refused);
  });

  test.each([Number.NaN, Infinity, -Infinity, -0, null, undefined, true, '2', {}])('a lastIndex of %s', (lastIndex) => {
    expect(() => codec.encode({ a: Object.assign(/a/g, { lastIndex }) })).toThrow(refused);
  });

  test('an error comes back with a message of its own only if it had one', () => {
    const without = new Error('x');
    Reflect.deleteProperty(without, 'message');
    for (const error of [without, new Error(), new Error(''), new Error('x')]) {
      const { root, chunks } = codec.encode({ error });
      const { error: back } = codec.decode(root, findIn(new Map(chunks.map((chunk) => [chunk.digest, chunk])))) as {
        error: Error;
      };
      expect(Object.hasOwn(back, 'message')).toBe(Object.hasOwn(error, 'message'));
      expect(back.message).toBe(error.message);
    }
  });
});
