import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../../test/support/storages.ts';
import { readConfig } from './project.ts';

test('[settings.6] a limit that would delete everything is refused where it is written', async () => {
  const folder = temporaryFolder();
  const write = (text: string) => writeFileSync(join(folder, 'savestate.yaml'), text);
  write('retention: { keepLast: 0, maxAgeDays: 1, types: { routine: { keepLast: 0 } } }\n');
  expect((await readConfig(folder))?.config.retention).toMatchObject({ keepLast: 0, maxAgeDays: 1 });
  write('retention: { maxAgeDays: 0 }\n');
  await expect(readConfig(folder)).rejects.toThrow('1:26 retention.maxAgeDays: must be 1 or more; found 0');
});
