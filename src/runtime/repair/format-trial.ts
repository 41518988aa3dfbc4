import { formatCount } from '../../core/format-count.ts';
import type { TrialArmReport, TrialChance, TrialDivergence, TrialReport, TrialRun } from './trial-report.ts';

const HEADINGS = {
  none: 'nothing',
  message: 'message',
  system_message: 'prompt',
  llm_config: 'model',
  tool_result: "a tool's answer",
};

/** A trial as Markdown: what was changed, the outcomes side by side, what follows from them, and every run. */
export function formatTrial(report: TrialReport): string {
  return [
    `# Trial ${code(report.name)}`,
    describeChange(report),
    formatArms(report),
    describeConclusion(report),
    '## Runs',
    formatRuns(report),
    '',
  ].join('\n\n');
}

function describeChange({ intervention, reason, author, rounds, repeats, isComplete, sessionId }: TrialReport): string {
  const { kind, agent, index, callId, originalChars, replacementChars, baseId } = intervention;
  const details = [
    agent === undefined ? undefined : `of ${cell(agent)}`,
    index === undefined ? undefined : `at message ${index}`,
    callId === undefined ? undefined : `call ${cell(callId)}`,
    originalChars === undefined ? undefined : `${originalChars} → ${replacementChars} characters`,
  ].filter((detail) => detail !== undefined);
  return [
    `- Session ${code(sessionId)}, from checkpoint ${code(baseId)}, ${formatCount(rounds, 'round')}, ${formatCount(repeats, 'run')} of each kind`,
    `- Changed: ${[HEADINGS[kind], ...details].join(', ')}`,
    ...(reason === undefined ? [] : [`- Reason: ${cell(reason)}`]),
    ...(author === undefined ? [] : [`- Author: ${cell(author)}`]),
    ...(isComplete ? [] : ['- **Not complete**: resume it by its name.']),
  ].join('\n');
}

function formatArms({ edited, control }: TrialReport): string {
  const arms = edited === undefined ? [control] : [edited, control];
  const names = edited === undefined ? ['unedited'] : ['edited', 'control'];
  const row = (name: string, of: (arm: TrialArmReport) => string | number): string[] => [
    name,
    ...arms.map((arm) => `${of(arm)}`),
  ];
  return table(
    ['', ...names],
    [
      row(
        'success',
        ({ successes, successRate }) =>
          `${successes}${successRate === undefined ? '' : ` (${Math.round(successRate * 100)} %)`}`,
      ),
      row('failure', ({ failures }) => failures),
      row('error', ({ errors }) => errors),
      row('mean score', ({ meanScore }) => (meanScore === undefined ? '–' : round(meanScore))),
      row('tokens per run', (arm) => perRun(arm, arm.used.inputTokens + arm.used.outputTokens)),
      row('cost per run (USD)', (arm) => perRun(arm, arm.used.costUsd)),
    ],
  );
}

function perRun({ runs }: TrialArmReport, total: number): string {
  return runs.length === 0 ? '–' : round(total / runs.length);
}

function describeConclusion({ conclusion, chance }: TrialReport): string {
  if (chance === undefined) return 'Nothing was changed, so nothing is compared.';
  return `**${sentenceOf(conclusion, chance)}** Fisher's exact test, two-sided: p = ${round(chance.pValue)}.`;
}

function sentenceOf(conclusion: TrialReport['conclusion'], { smallestPValue, alpha }: TrialChance): string {
  switch (conclusion) {
    case 'helps':
      return 'The change helps: chance alone would rarely make such a difference.';
    case 'harms':
      return 'The change harms: chance alone would rarely make such a difference.';
    case 'too_few_runs':
      return `Too few runs were judged to tell: even the clearest outcome would give p = ${round(smallestPValue)}, and ${alpha} is the limit.`;
    case 'could_be_chance':
    case 'not_compared':
      return 'The difference could be chance.';
  }
}

function formatRuns({ edited, control, pairs }: TrialReport): string {
  const runs = [...(edited?.runs ?? []), ...control.runs].toSorted((a, b) => a.run - b.run);
  const parted = new Map(pairs.map(({ run, divergence }) => [run, divergence]));
  const header = [
    'run',
    'kind',
    'outcome',
    'ended',
    'messages',
    'leaves the original at',
    'pair parts at',
    'tokens',
    'branch',
  ];
  return table(
    header,
    runs.map((run) => formatRun(run, parted.has(run.run) && run.arm === 'edited' ? place(parted.get(run.run)) : '')),
  );
}

function formatRun(run: TrialRun, parted: string): string[] {
  const { outcome, score, note, error, end, status, used } = run;
  const details = [score === undefined ? undefined : `score ${round(score)}`, note, error].filter(
    (part) => part !== undefined,
  );
  return [
    `${run.run}`,
    run.arm,
    details.length === 0 ? outcome : `${outcome}: ${cell(details.join('; '))}`,
    end === null ? status : `${end.reason}${end.signal === undefined ? '' : ` (${cell(end.signal)})`}`,
    `${run.newMessages}`,
    place(run.divergence),
    parted,
    `${used.inputTokens + used.outputTokens}`,
    code(run.branch),
  ];
}

function place(divergence: TrialDivergence | undefined): string {
  if (divergence === undefined) return 'nowhere';
  const { index, speaker, otherSpeaker } = divergence;
  return `message ${index} (${cell(speaker ?? `over; ${otherSpeaker ?? 'nobody'} went on`)})`;
}

function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(header), line(header.map(() => '---')), ...rows.map(line)].join('\n');
}

/** Words of others must not leave their place in the document. */
function cell(text: string): string {
  const short = text.length > MAX_CELL_CHARS ? `${text.slice(0, MAX_CELL_CHARS)}…` : text;
  return short.replace(/\s+/g, ' ').replace(/[\\|`*_<>[\]#]/g, '\\$&');
}

const MAX_CELL_CHARS = 200;

function code(text: string): string {
  return `\`${text.replace(/[`|\r\n]/g, ' ')}\``;
}

function round(value: number): string {
  return `${Number(value.toPrecision(3))}`;
}
