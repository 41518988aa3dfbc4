import type { CodeBlock, CodeExecutionConfig, CodeExecutor, CodeResult } from '../code/code-executor.ts';
import { captureWorkspace } from '../workspace/capture-workspace.ts';
import type { WorkspaceCache } from '../workspace/workspace-cache.ts';
import type { WorkspaceState } from '../workspace/workspace-state.ts';
import type { Effects } from './effects.ts';

/** What running the code of a message needs. */
export type CodeTurnInput = {
  readonly name: string;
  readonly config: Exclude<CodeExecutionConfig, false>;
  readonly executor: CodeExecutor;
  readonly cache: WorkspaceCache;
  readonly effects: Effects;
  readonly signal?: AbortSignal | undefined;
};

type CodeTurn = {
  readonly content: string;
  readonly code: readonly CodeResult[];
  /** The working directory after the last block; undefined if it is not captured. */
  readonly workspace: WorkspaceState | undefined;
};

type BlockOutcome = { readonly result: CodeResult; readonly workspace?: WorkspaceState };

/** Runs the blocks of a message one after the other, up to the first that fails, and words what came of them. */
export async function runCode(blocks: readonly CodeBlock[], input: CodeTurnInput): Promise<CodeTurn> {
  const code: CodeResult[] = [];
  let workspace: WorkspaceState | undefined;
  for (const block of blocks) {
    const outcome = await runBlock(block, input);
    code.push(outcome.result);
    workspace = outcome.workspace ?? workspace;
    if (outcome.result.failure !== undefined) break;
  }
  return { content: code.map(describeResult).join('\n\n'), code, workspace };
}

/** What the files became is recorded with the run, so that a replay, which runs nothing, has the same files in its states. */
function runBlock(block: CodeBlock, input: CodeTurnInput): Promise<BlockOutcome> {
  const { name, config, executor, cache, effects, signal } = input;
  return effects.run({ kind: 'code', name, input: block, signal }, async (attempt) => {
    const { idempotencyKey } = attempt;
    const result = await executor.run(block, {
      idempotencyKey,
      ...(attempt.signal !== undefined && { signal: attempt.signal }),
    });
    if (config.capture === false) return { result };
    return { result, workspace: await captureWorkspace(config.workDir, config.capture, { cache, signal }) };
  });
}

function describeResult({ language, exitCode, output, failure }: CodeResult): string {
  const ending = failure === undefined ? 'ran' : `failed: ${failure.message}`;
  return `exit code: ${exitCode ?? 'none'} (${language} ${ending})\noutput:\n${output}`;
}
