import { expect, test } from 'vitest';
import { SavestateError } from '../errors.ts';
import { StateCodec } from './state-codec.ts';

function nested(depth: number): unknown {
  let value: unknown = { text: 'innermost' };
  for (let level = 0; level < depth; level++) value = { text: `level ${level}`, inner: value };
  return value;
}

test('[value.2] each text of a deep state is written a few times, however deep it is', () => {
  let written = 0;
  const codec = new StateCodec({ redact: () => void written++ });
  codec.encode(nested(400));
  expect(written).toBeLessThan(2 * 401);
});

test('[value.2] what is nested too deeply is refused with the reason in sight, and its whole path beside it', () => {
  const { error } = refusalOf(() => new StateCodec().encode(nested(600)));
  expect(error.message.length).toBeLessThan(300);
  expect(error.message).toContain('nested deeper than 500 levels');
  expect(String(error.details.path)).toHaveLength('$'.length + 500 * '.inner'.length);
});

function refusalOf(work: () => unknown): { readonly error: SavestateError } {
  try {
    work();
  } catch (error) {
    if (error instanceof SavestateError) return { error };
  }
  throw new TypeError('nothing was refused');
}
