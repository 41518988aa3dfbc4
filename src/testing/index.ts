export type { FaultPlan } from './faulty-storage.ts';
export { faultyStorage } from './faulty-storage.ts';
export { SimulatedDisk } from './simulated-disk.ts';
export type { StorageContractOptions } from './storage-contract.ts';
export { storageContract } from './storage-contract.ts';
