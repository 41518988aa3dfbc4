export { extractCodeBlocks } from '../code/extract-code-blocks.ts';
export { type ApplyOptions, applyRestore } from './apply-restore.ts';
export { captureWorkspace } from './capture-workspace.ts';
export { type PlanOptions, planRestore } from './plan-restore.ts';
export { WorkspaceCache } from './workspace-cache.ts';
export type { WorkspaceOptions } from './workspace-options.ts';
export type { WorkspacePlan, WorkspaceReport } from './workspace-plan.ts';
export type { WorkspaceState } from './workspace-state.ts';
