import { Buffer } from 'node:buffer';
import { hash } from 'node:crypto';

const CHECK_CHARS = 16;

/** Ends an encrypted chunk, whose name is no digest of it: sixteen hexadecimal characters that cover its name and its text. */
export function nameCheck(name: string, canonical: string): string {
  return hash('sha256', name + canonical).slice(0, CHECK_CHARS);
}

/** Whether these bytes belong under a name: it is their digest, or they end with their check. */
export function isNamed(bytes: Uint8Array, name: string): boolean {
  if (hash('sha256', bytes) === name) return true;
  const text = Buffer.from(bytes).toString('latin1'); // an encrypted one is ASCII
  return text.slice(-CHECK_CHARS) === nameCheck(name, text.slice(0, -CHECK_CHARS - 1));
}
