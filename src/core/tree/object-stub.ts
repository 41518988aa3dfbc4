import { UnsupportedError } from '../errors.ts';
import type { ChunkContent } from './chunk.ts';

/** Where an object store has the text of a chunk: a piece of an object. */
export type ObjectPlace = { readonly object: string; readonly from: number; readonly to: number };

const STUB = /^@([0-9a-f-]+)\.(\d+)\.(\d+)\.[0-9a-f]{16}$/;

/** What all stubs begin with: JSON does not, and nothing that is sealed. */
export const STUB_START = '@';
/** Every stub is shorter: backends look for them without reading long texts. */
export const MAX_STUB_BYTES = 256;

/** The place that a chunk names in place of its text; undefined of any other chunk. */
export function readStub({ text }: Pick<ChunkContent, 'text'>): ObjectPlace | undefined {
  const [, object, from, to] = (text.startsWith(STUB_START) && STUB.exec(text)) || [];
  return object === undefined ? undefined : { object, from: Number(from), to: Number(to) };
}

/** What a backend's own check says of a storage with stubs: opened alone it cannot be read whole. */
export const OBJECTS_FINDING =
  'It keeps large values in an object store. Open it with withObjects(storage, objects) of savestate/objects, which the command line cannot.';

/** Says that a storage was opened without its object store. */
export function objectsError(): UnsupportedError {
  return new UnsupportedError(
    'This storage keeps large values in an object store: open it with withObjects(storage, objects) of savestate/objects. The command line cannot.',
  );
}
