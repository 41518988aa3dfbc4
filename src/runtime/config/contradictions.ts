import type { CheckpointingSettings } from './config-schema.ts';
import type { ReadConfig } from './load-workflow-config.ts';
import type { KeyPath, Problem } from './problem.ts';
import type { ProblemSource } from './yaml-source.ts';

const CHECKPOINTING = ['workflow', 'checkpointing'] as const;

/** What is wrong only together: settings that need another one, and settings that say two things. */
export function findContradictions(source: ProblemSource, read: ReadConfig): Problem[] {
  const place = (path: KeyPath, key: string, message: string): Problem => source.place(path, message, { key });
  return [
    ...storageProblems(read).map(([key, message]) => place(CHECKPOINTING, key, message)),
    ...resumeProblems(read).map(([key, message]) => place(CHECKPOINTING, key, message)),
    ...approvalProblems(read).map((message) => place(['workflow', 'human_in_the_loop'], 'trusted_operations', message)),
    ...reviewProblems(read).map((message) => place(['fleet', 'plan_review'], 'require_human_approval', message)),
    ...limitProblems(read).map(([key, message]) => place(['fleet', 'orchestrator'], key, message)),
  ];
}

type Keyed = readonly [key: string, message: string];

const POSTGRES_ONLY = ['storage_url', 'storage_schema', 'storage_tenant'] as const;

/** `memory` is how a storage is switched off for a while, so it may keep the settings of the other. */
function storageProblems({ config, written, own }: ReadConfig): Keyed[] {
  const { enabled, storage_type: type, storage_url: url } = config.workflow.checkpointing;
  if (enabled && type === 'postgres' && url === undefined)
    return [['storage_type', 'storage_type postgres needs a storage_url, such as env:DATABASE_URL.']];
  const here = own.workflow?.checkpointing;
  const isOwn = type !== 'postgres' || here?.storage_type === type; // postgres over another file leaves the path of that
  const said = type === 'postgres' ? here : written.workflow?.checkpointing;
  return isOwn ? findStrayKeys(type, (key) => said?.[key] !== undefined) : [];
}

/** Keys that say where the storage is, and that one of this type does not look at. */
export function findStrayKeys(
  type: CheckpointingSettings['storage_type'],
  isWritten: (key: 'storage_path' | (typeof POSTGRES_ONLY)[number]) => boolean,
): Keyed[] {
  if (type === 'memory') return [];
  if (type !== 'postgres')
    return POSTGRES_ONLY.filter(isWritten).map((key) => [key, `${key} is for storage_type postgres; it is ${type}.`]);
  const message = 'storage_path is for storage_type file and sqlite; postgres is where storage_url says.';
  return isWritten('storage_path') ? [['storage_path', message]] : [];
}

const RESUME_ONLY = ['auto_resume_limit', 'auto_resume_backoff_seconds'] as const;

/** Another file, or the environment, may switch it off for a while. */
function resumeProblems({ written, own }: ReadConfig): Keyed[] {
  const { checkpointing: all = {} } = written.workflow ?? {};
  const { checkpointing: here = {} } = own.workflow ?? {};
  const isOff = here.auto_resume_on_failure === false && here.enabled !== false;
  if (all.auto_resume_on_failure !== undefined && !isOff) return [];
  const stray = RESUME_ONLY.filter((key) => (isOff ? here : all)[key] !== undefined);
  return stray.map((key) => [key, `${key} has no effect without auto_resume_on_failure: true.`]);
}

function approvalProblems({ config, written }: ReadConfig): string[] {
  const { require_approval_for: required, trusted_operations: trusted } = config.workflow.human_in_the_loop;
  const lists = ['require_approval_for', 'trusted_operations'] as const;
  const unwritten = lists.find((list) => written.workflow?.human_in_the_loop?.[list] === undefined);
  const advice = (name: string): string =>
    unwritten === undefined
      ? 'Decide for one of them.'
      : `${unwritten} has it by default: write ${unwritten} without "${name}".`;
  const both = required.filter((name) => trusted.includes(name));
  return both.map((name) => `"${name}" is in require_approval_for and in trusted_operations. ${advice(name)}`);
}

/** Whoever wants a person to approve relies on it; another file, or the environment, may switch it off for a while. */
function reviewProblems({ own }: ReadConfig): string[] {
  const { enabled, require_human_approval: isRequired } = own.fleet?.plan_review ?? {};
  return enabled === false && isRequired === true ? ['has no effect with enabled: false: nobody is asked.'] : [];
}

const LIMITS = [
  ['max_rounds', 'max_round_count'],
  ['max_stalls', 'max_stall_count'],
  ['max_resets', 'max_reset_count'],
] as const;

function limitProblems({ config: { workflow, fleet } }: ReadConfig): Keyed[] {
  return LIMITS.flatMap(([general, own]): Keyed[] => {
    const [a, b] = [workflow[general], fleet.orchestrator[own]];
    if (a === undefined || b === undefined || a === b) return [];
    return [[own, `is ${b}, and workflow.${general} is ${a}. Leave one of them out.`]];
  });
}
