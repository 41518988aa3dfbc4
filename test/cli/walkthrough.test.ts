import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { LATER } from '../support/later.ts';
import { createHome, normalise, readTranscript, type } from './support/transcript.ts';

const DOCUMENT = resolve(import.meta.dirname, '../../docs/WALKTHROUGH.md');

test('[cli.22] the walk-through is what happens, line by line', LATER, async () => {
  const folder = createHome();
  let typed = 0;
  for (const part of readTranscript(DOCUMENT)) {
    if (part.kind === 'file') {
      expect(part.name).not.toBe('');
      writeFileSync(join(folder, part.name), part.text);
      continue;
    }
    for (const { line, command, output } of part.lines) {
      const found = normalise(await type(folder, command), folder);
      expect(`docs/WALKTHROUGH.md:${line}\n$ ${command}\n${found}`).toBe(
        `docs/WALKTHROUGH.md:${line}\n$ ${command}\n${normalise(output)}`,
      );
      typed++;
    }
  }
  expect(typed).toBeGreaterThan(15);
});
