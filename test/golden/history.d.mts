import type { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';

export function goldenState(turns: number): Record<string, unknown>;
export function goldenHistory(manager: CheckpointManager): Promise<string[]>;
