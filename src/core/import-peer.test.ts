import { expect, test } from 'vitest';
import { importPeer } from './import-peer.ts';

test('[model.10] a package that is not installed is named', async () => {
  const name = 'no-such-package';
  await expect(importPeer(name, () => import(name))).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: expect.stringContaining('npm install no-such-package'),
  });
});
