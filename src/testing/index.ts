export { faultyStorage } from './faulty-storage.ts';
export { storageContract } from './storage-contract.ts';
