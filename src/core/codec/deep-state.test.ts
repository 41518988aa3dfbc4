import { expect, test } from 'vitest';
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
