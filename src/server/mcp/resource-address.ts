import { formatPointer, type PathStep } from '../../core/path.ts';
import { parseStatePath } from '../../view/state-path.ts';

/** The address of a checkpoint as a resource, or of a value in its state. */
export function formatAddress(session: string, checkpoint: string, path = '$'): string {
  const steps: readonly PathStep[] = parseStatePath(path);
  return `savestate://${[session, checkpoint, ...steps].map((part) => encodeURIComponent(part)).join('/')}`;
}

/** The path of a value, from what comes after the checkpoint in an address. */
export function parseAddressPath(text: string): string {
  return formatPointer(text.split('/').map((part) => decodeURIComponent(part)));
}
