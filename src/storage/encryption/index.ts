export { encrypted } from './encrypted.ts';
export { KeyFile } from './key-file.ts';
export { Keyring } from './keyring.ts';
