export { type FaultPlan, faultyStorage } from './faulty-storage.ts';
export { type ModelServer, startModelServer } from './model/model-server.ts';
export type { Script, ScriptedAnswer, ScriptedReply } from './model/scripted-answer.ts';
export { type ScriptedModel, type ScriptedModelOptions, scriptedModel } from './model/scripted-model.ts';
export { type StorageContractOptions, storageContract } from './storage-contract.ts';
