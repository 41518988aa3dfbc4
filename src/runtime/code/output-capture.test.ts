import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { OutputCapture } from './output-capture.ts';

function capture(maxBytes: number, chunks: readonly (string | Buffer)[]) {
  const output = new OutputCapture(maxBytes);
  for (const chunk of chunks) output.add(Buffer.from(chunk));
  return output.finish();
}

describe('[code.3] output', () => {
  test('is whole up to the limit', () => {
    expect(capture(10, ['01234', '56789'])).toEqual({ text: '0123456789', isTruncated: false, totalBytes: 10 });
    expect(capture(0, [])).toEqual({ text: '', isTruncated: false, totalBytes: 0 });
  });

  test('beyond it keeps the first and the last half, and says what is missing', () => {
    const { text, isTruncated } = capture(10, ['01234', '56789', 'abcde', 'f']);
    expect(text).toBe('01234\n[... 6 bytes of output left out ...]\nbcdef');
    expect(isTruncated).toBe(true);
    expect(capture(0, ['x']).text).toBe('\n[... 1 bytes of output left out ...]\n');
  });

  test('is never cut within a character', () => {
    for (let limit = 2; limit < 40; limit++) {
      const { text } = capture(limit, ['aé€𝄞'.repeat(10)]);
      expect(text).not.toContain('\uFFFD');
    }
  });

  test('that is no text has a replacement for each wrong byte', () => {
    expect(capture(100, [Buffer.from([0x61, 0xff, 0x00, 0xfe, 0x62])]).text).toBe('a\uFFFD\0\uFFFDb');
  });

  test('has the same beginning and end whatever the pieces it came in', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 50 })), fc.integer({ min: 0, max: 60 }), (chunks, limit) => {
        const whole = Buffer.concat(chunks);
        expect(
          capture(
            limit,
            chunks.map((chunk) => Buffer.from(chunk)),
          ),
        ).toEqual(capture(limit, [whole]));
      }),
    );
  });
});
