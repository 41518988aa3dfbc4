import { Buffer } from 'node:buffer';
import { hash } from 'node:crypto';

const CHECK_CHARS = 16;

/** Ends an encrypted chunk, whose name is no digest of it: sixteen hexadecimal characters that cover its name and its bytes. */
export function nameCheck(name: string, canonical: string | Uint8Array): string {
  return hash('sha256', Buffer.concat([Buffer.from(name), Buffer.from(canonical)])).slice(0, CHECK_CHARS);
}

/** Whether these bytes belong under a name: it is their digest, or they end with their check. */
export function isNamed(bytes: Uint8Array, name: string): boolean {
  if (hash('sha256', bytes) === name) return true;
  const end = bytes.length - CHECK_CHARS;
  return end > 1 && Buffer.from(bytes.subarray(end)).toString() === nameCheck(name, bytes.subarray(0, end - 1));
}
