import type { BaseMessage } from '@langchain/core/messages';
import type { RunnableConfig } from '@langchain/core/runnables';
import type { StateSnapshot } from '@langchain/langgraph';
import type { BaseCheckpointSaver } from '@langchain/langgraph-checkpoint';

type State = { messages: BaseMessage[]; [channel: string]: unknown };

export type Graph = {
  invoke(input: unknown, config: RunnableConfig): Promise<State>;
  getState(config: RunnableConfig, options?: { subgraphs?: boolean }): Promise<StateSnapshot>;
  getStateHistory(config: RunnableConfig): AsyncIterable<StateSnapshot>;
};

type CreateGraph = (library: object, checkpointer?: BaseCheckpointSaver) => Graph;

export const talkGraph: CreateGraph;
export const approvalGraph: CreateGraph;
export const nestedGraph: CreateGraph;
export const deltaGraph: CreateGraph;
export const faultyGraph: CreateGraph;
export function writeThreads(library: object, saver: BaseCheckpointSaver): Promise<void>;
