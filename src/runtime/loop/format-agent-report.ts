import type { AgentCheck, AgentReport } from './verify-agent.ts';

/** What to do about a check that failed. */
const ADVICE: { readonly [Name in AgentCheck['name']]: string } = {
  presence: 'Run the agent in an AgentLoop, with the same agent id, on this storage.',
  intervals:
    'Look for a process that was stopped, paused or overloaded at that time; look for `checkpoint_failed` events.',
  fields: 'Take a new checkpoint with this version of the agent; older ones restore partially.',
  integrity: 'Run `verify` on the storage, and bring damaged checkpoints back from a backup or an export.',
  freshness: 'Look whether the agent still runs; start it, or stop it with `stop` if it is not meant to run.',
  restore: 'Look at the section hooks of the agent: what `restore` takes over, `collect` must answer again.',
};

/** The report as Markdown, for people. */
export function formatAgentReport(report: AgentReport): string {
  const { agentId, status, checkedAt, checkpoints, newest, checks } = report;
  const types = Object.entries(checkpoints.byType).map(([type, count]) => `${count} ${type}`);
  const failed = checks.filter((check) => check.status === 'failed');
  return [
    `# Checkpoints of agent ${agentId}: ${status}`,
    '',
    `Checked at ${checkedAt}. ${checkpoints.total} checkpoints${types.length > 0 ? ` (${types.join(', ')})` : ''}.`,
    newest === null ? 'There is none.' : `The newest is ${newest.id}, ${newest.type}, of ${newest.timestamp}.`,
    '',
    '| check | status | what was looked at |',
    '| --- | --- | --- |',
    ...checks.map(({ name, status: verdict, summary }) => `| ${name} | ${verdict} | ${summary} |`),
    ...failed.flatMap(formatFailure),
    '',
  ].join('\n');
}

const MAX_FINDINGS = 20;

function formatFailure({ name, findings }: AgentCheck): string[] {
  const rest = findings.length - MAX_FINDINGS;
  return [
    '',
    `## ${name}`,
    '',
    ...findings.slice(0, MAX_FINDINGS).map((finding) => `- ${finding}`),
    ...(rest > 0 ? [`- and ${rest} more`] : []),
    '',
    ADVICE[name],
  ];
}
