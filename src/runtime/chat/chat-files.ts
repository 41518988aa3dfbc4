import { resolve } from 'node:path';
import { InvalidInputError } from '../../core/errors.ts';
import type { RestoreProblem } from '../../manager/engine/loading.ts';
import type { AgentRegistry } from '../agent/agent-registry.ts';
import type { AgentState } from '../agent/agent-state.ts';
import type { CodeExecutionConfig } from '../code/code-executor.ts';
import { planRestore } from '../workspace/plan-restore.ts';
import type { WorkspacePlan, WorkspaceReport } from '../workspace/workspace-plan.ts';
import type { WorkspaceState } from '../workspace/workspace-state.ts';
import type { ChatState } from './chat-state.ts';

type Capture = {
  readonly name: string;
  readonly workspace: WorkspaceState;
  readonly config: Exclude<CodeExecutionConfig, false>;
};

/** Plans what restoring the captured working directories of a conversation would change, by agent. */
export async function planChatFiles(state: ChatState, registry: AgentRegistry): Promise<Record<string, WorkspacePlan>> {
  const plans: Record<string, WorkspacePlan> = {};
  for (const { name, workspace, config } of findCaptures(state)) {
    if (!registry.allowsCode(config)) throw refuseFolder(name, config.workDir);
    const ignore = config.capture === false ? undefined : config.capture?.ignore;
    plans[name] = await planRestore(workspace, config.workDir, ignore === undefined ? {} : { ignore });
  }
  return plans;
}

/** Which folder is written to is not for a checkpoint to say. */
function refuseFolder(name: string, workDir: string): InvalidInputError {
  return new InvalidInputError(
    `The checkpoint asks to put files of "${name}" into "${workDir}", which is not allowed here. Allow the folder with allowCode of the registry (--allow-code at the command line).`,
    { details: { agent: name, workDir } },
  );
}

/** One for each folder: of agents that share one, whoever ran code last knows what it holds. */
function findCaptures(state: ChatState): Capture[] {
  const byFolder = new Map<string, Capture>();
  for (const { name, workspace, codeExecution } of inOrderOfRuns(state)) {
    if (workspace === null || codeExecution === false) continue;
    byFolder.set(resolve(codeExecution.workDir), { name, workspace, config: codeExecution });
  }
  return [...byFolder.values()];
}

function inOrderOfRuns({ agents, chat: { messages, pendingReply } }: ChatState): AgentState[] {
  const said = pendingReply === null ? messages : [...messages, pendingReply.message];
  const lastRun = ({ name }: AgentState) =>
    said.findLastIndex((message) => message.name === name && message.code !== undefined);
  return Object.values(agents).toSorted((a, b) => lastRun(a) - lastRun(b));
}

/** Lists the paths that a restore could not make what they were. */
export function describeLeft(reports: Readonly<Record<string, WorkspaceReport>>): RestoreProblem[] {
  return Object.entries(reports).flatMap(([agent, { status, left, failed }]) => {
    if (status === 'complete') return [];
    const notes = [
      ...left.map(({ path, note }) => ({ path, why: note })),
      ...failed.map(({ path, problem }) => ({ path, why: problem })),
    ];
    return notes.map(({ path, why }) => ({ path: `$.agents.${agent}.workspace`, problem: `${path}: ${why}` }));
  });
}
