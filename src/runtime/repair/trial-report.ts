import { formatCount } from '../../core/format-count.ts';
import { type AgentTotals, addTotals, NO_TOTALS } from '../agent/agent-state.ts';
import type { ChatEnd } from '../chat/chat-end.ts';
import { type ContingencyTable, fisherExact } from './fisher-exact.ts';
import type { InterventionRecord } from './intervention.ts';

/** With the change, or without it. */
export type TrialArm = 'edited' | 'control';

/** One run of a trial. */
export type TrialRun = {
  readonly arm: TrialArm;
  /** Counted from 1; the edited and the control run of one number are a pair. */
  readonly run: number;
  readonly branch: string;
  readonly checkpointId: string | undefined;
  readonly status: 'ended' | 'waiting' | 'failed' | 'stopped';
  readonly end: ChatEnd | null;
  /** `error`: it did not come to its end, or the judge failed. It counts for neither side. */
  readonly outcome: 'success' | 'failure' | 'error';
  readonly score?: number;
  readonly note?: string;
  readonly error?: string;
  readonly newMessages: number;
  /** What it used after the checkpoint. */
  readonly used: AgentTotals;
  /** Where it left the original, as far as both go, and who spoke there. */
  readonly divergence:
    | { readonly index: number; readonly speaker?: string; readonly otherSpeaker?: string }
    | undefined;
  /** It had ended before, and was only judged. */
  readonly isReused: boolean;
};

/** The runs of one kind. */
export type TrialArmReport = {
  readonly runs: readonly TrialRun[];
  readonly successes: number;
  readonly failures: number;
  readonly errors: number;
  /** Of those that were judged; undefined if none was. */
  readonly successRate: number | undefined;
  readonly meanScore: number | undefined;
  readonly used: AgentTotals;
};

/** Whether the difference could be chance, by Fisher's exact test. */
export type TrialChance = {
  /** Successes and failures: edited, then control. */
  readonly table: ContingencyTable;
  readonly pValue: number;
  /** What the clearest possible outcome of so many runs would have given. */
  readonly smallestPValue: number;
  /** Below this p-value a difference is taken as real. */
  readonly alpha: number;
};

/** What a trial has shown. */
export type TrialReport = {
  readonly name: string;
  readonly sessionId: string;
  readonly intervention: InterventionRecord;
  readonly reason?: string;
  readonly author?: string;
  readonly rounds: number;
  readonly repeats: number;
  /** Every run was made; else it can be resumed by its name. */
  readonly isComplete: boolean;
  /** Undefined without an intervention. */
  readonly edited: TrialArmReport | undefined;
  readonly control: TrialArmReport;
  readonly chance: TrialChance | undefined;
  readonly conclusion: 'helps' | 'harms' | 'could_be_chance' | 'too_few_runs' | 'not_compared';
};

/** One in twenty: the usual measure. */
const ALPHA = 0.05;

/** Sums up the runs of one kind. */
export function summariseArm(runs: readonly TrialRun[]): TrialArmReport {
  const count = (outcome: TrialRun['outcome']): number => runs.filter((run) => run.outcome === outcome).length;
  const [successes, failures] = [count('success'), count('failure')];
  const scores = runs.flatMap(({ score }) => score ?? []);
  return {
    runs,
    successes,
    failures,
    errors: count('error'),
    successRate: successes + failures === 0 ? undefined : successes / (successes + failures),
    meanScore: scores.length === 0 ? undefined : scores.reduce((sum, score) => sum + score, 0) / scores.length,
    used: runs.reduce((sum, { used }) => addTotals(sum, used), NO_TOTALS),
  };
}

/** Whether two kinds of runs differ by more than chance. */
export function weighChance(edited: TrialArmReport, control: TrialArmReport): TrialChance {
  const table: ContingencyTable = [
    [edited.successes, edited.failures],
    [control.successes, control.failures],
  ];
  const [judgedEdited, judgedControl] = [edited.successes + edited.failures, control.successes + control.failures];
  return {
    table,
    pValue: fisherExact(table),
    smallestPValue: fisherExact([
      [judgedEdited, 0],
      [0, judgedControl],
    ]),
    alpha: ALPHA,
  };
}

/** What follows from the numbers. */
export function conclude(chance: TrialChance | undefined): TrialReport['conclusion'] {
  if (chance === undefined) return 'not_compared';
  const { table, pValue, smallestPValue, alpha } = chance;
  if (smallestPValue >= alpha) return 'too_few_runs';
  if (pValue >= alpha) return 'could_be_chance';
  const [[a, b], [c, d]] = table;
  return a * (c + d) > c * (a + b) ? 'helps' : 'harms';
}

const CHANGES = {
  none: 'nothing',
  message: 'message',
  system_message: 'prompt',
  llm_config: 'model',
  tool_result: "a tool's answer",
};

const RUN_COLUMNS = ['run', 'kind', 'outcome', 'ended', 'messages', 'leaves the original at', 'tokens', 'branch'];

/** A trial as Markdown: what was changed, the outcomes side by side, what follows from them, and every run. */
export function formatTrial(report: TrialReport): string {
  const runs = [...(report.edited?.runs ?? []), ...report.control.runs].toSorted((a, b) => a.run - b.run);
  return [
    `# Trial ${code(report.name)}`,
    describeChange(report),
    formatArms(report),
    describeConclusion(report),
    '## Runs',
    table(RUN_COLUMNS, runs.map(formatRun)),
    '',
  ].join('\n\n');
}

function describeChange({ intervention, reason, author, rounds, repeats, isComplete, sessionId }: TrialReport): string {
  const { kind, agent, index, callId, originalChars, replacementChars, baseId } = intervention;
  const details = [
    agent !== undefined && `of ${cell(agent)}`,
    index !== undefined && `at message ${index + 1}`,
    callId !== undefined && `call ${cell(callId)}`,
    originalChars !== undefined && `${originalChars} → ${replacementChars} characters`,
  ];
  const lines = [
    `- Session ${code(sessionId)}, from checkpoint ${code(baseId)}, ${formatCount(rounds, 'round')}, ${formatCount(repeats, 'run')} of each kind`,
    `- Changed: ${[CHANGES[kind], ...details].filter(Boolean).join(', ')}`,
    reason !== undefined && `- Reason: ${cell(reason)}`,
    author !== undefined && `- Author: ${cell(author)}`,
    !isComplete && '- **Not complete**: resume it by its name.',
  ];
  return lines.filter(Boolean).join('\n');
}

function formatArms({ edited, control }: TrialReport): string {
  const arms = edited === undefined ? { unedited: control } : { edited, control };
  const perRun = ({ runs }: TrialArmReport, total: number) => (runs.length === 0 ? '–' : round(total / runs.length));
  const percent = (rate: number | undefined) => (rate === undefined ? '' : ` (${Math.round(rate * 100)} %)`);
  const rows: Readonly<Record<string, (arm: TrialArmReport) => string>> = {
    success: ({ successes, successRate }) => `${successes}${percent(successRate)}`,
    failure: ({ failures }) => `${failures}`,
    error: ({ errors }) => `${errors}`,
    'mean score': ({ meanScore }) => (meanScore === undefined ? '–' : round(meanScore)),
    'tokens per run': (arm) => perRun(arm, arm.used.inputTokens + arm.used.outputTokens),
    'cost per run (USD)': (arm) => perRun(arm, arm.used.costUsd),
  };
  const cells = Object.entries(rows).map(([name, of]) => [name, ...Object.values(arms).map(of)]);
  return table(['', ...Object.keys(arms)], cells);
}

function describeConclusion({ conclusion, chance }: TrialReport): string {
  if (chance === undefined) return 'Nothing was changed, so nothing is compared.';
  const { pValue, smallestPValue, alpha } = chance;
  const sentences: Readonly<Record<TrialReport['conclusion'], string>> = {
    helps: 'The change helps: chance alone would rarely make such a difference.',
    harms: 'The change harms: chance alone would rarely make such a difference.',
    too_few_runs: `Too few runs were judged to tell: even the clearest outcome would give p = ${round(smallestPValue)}, and ${alpha} is the limit.`,
    could_be_chance: 'The difference could be chance.',
    not_compared: '',
  };
  return `**${sentences[conclusion]}** Fisher's exact test, two-sided: p = ${round(pValue)}.`;
}

function formatRun(run: TrialRun): string[] {
  const { outcome, score, note, error, end, status, used, divergence } = run;
  const details = [score !== undefined && `score ${round(score)}`, note, error].filter(Boolean).join('; ');
  const speaker = divergence?.speaker ?? `over; ${divergence?.otherSpeaker ?? 'nobody'} went on`;
  return [
    `${run.run}`,
    run.arm,
    details === '' ? outcome : `${outcome}: ${cell(details)}`,
    end === null ? status : `${end.reason}${end.signal === undefined ? '' : ` (${cell(end.signal)})`}`,
    `${run.newMessages}`,
    divergence === undefined ? 'nowhere' : `message ${divergence.index + 1} (${cell(speaker)})`,
    `${used.inputTokens + used.outputTokens}`,
    code(run.branch),
  ];
}

function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  return [header, header.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

const MAX_CELL_CHARS = 200;

/** Words of others must not leave their place in the document. */
function cell(text: string): string {
  const short = text.length > MAX_CELL_CHARS ? `${text.slice(0, MAX_CELL_CHARS)}…` : text;
  return short.replace(/\s+/g, ' ').replace(/[\\|`*_<>[\]#]/g, '\\$&');
}

function code(text: string): string {
  return `\`${text.replace(/[`|\r\n]/g, ' ')}\``;
}

function round(value: number): string {
  return `${Number(value.toPrecision(3))}`;
}
