import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseStorageAddress } from './address.ts';
import { openStorage } from './open.ts';

test.each([
  'mysql://u:p4ss:w0rd@host/db',
  'postgres:/u:p4ss:w0rd@host/db',
  'postgres://u:p4ss:w0rd@host:port/db',
  'sqlite://u:p4ss:w0rd@host/db',
  'u:p4ss:w0rd@host\u0001',
  'http://127.0.0.1:7913#token=p4ssw0rd',
  'http://127.0.0.1:7913/?a=b&token=p4ssw0rd',
])('[input.1] the refusal of the address %j does not show its password', (address) => {
  let refused: unknown;
  try {
    parseStorageAddress(address, { folder: '/' });
  } catch (error) {
    refused = error;
  }
  expect(refused).toMatchObject({ code: 'INVALID_INPUT' });
  const { message, cause } = refused as Error;
  expect(`${message} ${JSON.stringify(refused)} ${String(cause)}`).not.toMatch(/p4ss|w0rd/);
});

test('[input.1] an address below a file, or of a file as a folder, is refused with what to do', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'savestate-'));
  writeFileSync(join(folder, 'plain'), 'x');
  expect(() => parseStorageAddress('plain/', { folder })).toThrow(/means a folder, and is a file/);
  const below = parseStorageAddress('plain/x.db', { folder });
  await expect(openStorage(below)).rejects.toThrow(/does not exist, or is a file.*Create it first/);
  rmSync(folder, { recursive: true });
});
