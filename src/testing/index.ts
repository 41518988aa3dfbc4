export type { FaultPlan } from './faulty-storage.ts';
export { faultyStorage } from './faulty-storage.ts';
export type { ModelServer } from './model/model-server.ts';
export { startModelServer } from './model/model-server.ts';
export type { Script, ScriptedAnswer, ScriptedReply } from './model/scripted-answer.ts';
export type { ScriptedModel, ScriptedModelOptions } from './model/scripted-model.ts';
export { scriptedModel } from './model/scripted-model.ts';
export type { StorageContractOptions } from './storage-contract.ts';
export { storageContract } from './storage-contract.ts';
