import { expect, test } from 'vitest';
import { parseStorageAddress } from './address.ts';

test.each([
  'mysql://u:p4ss:w0rd@host/db',
  'postgres:/u:p4ss:w0rd@host/db',
  'postgres://u:p4ss:w0rd@host:port/db',
  'sqlite://u:p4ss:w0rd@host/db',
  'u:p4ss:w0rd@host\u0001',
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
