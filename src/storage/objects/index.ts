export { FolderObjects } from './folder-objects.ts';
export type { ObjectStore, StoredObject } from './object-store.ts';
export { S3Objects } from './s3-objects.ts';
export { withObjects } from './with-objects.ts';
