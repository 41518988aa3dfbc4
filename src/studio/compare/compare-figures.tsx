import { formatCost, formatDuration, formatShort, quoteArgument } from '../data/format.ts';
import { AgentSquare } from '../parts/agent.tsx';
import { CommandLine } from '../parts/command.tsx';
import { Icon } from '../parts/icon.tsx';
import { lookOf } from '../parts/status.tsx';
import type { Compared } from './compare-screen.tsx';

type Run = Compared['a'];
/** A figure of both, and whether the second is better. */
type Row = {
  readonly name: string;
  readonly a: string;
  readonly b: string;
  readonly change: string;
  readonly tone: string;
};

/** The two runs in numbers: what was used, by whom, with which tools. */
export function CompareFigures({ compared, sessionId }: { compared: Compared; sessionId: string }) {
  const { a, b, tools, agents } = compared;
  const most = Math.max(1, ...tools.flatMap((tool) => [tool.a, tool.b]));
  return (
    <aside className="pane" aria-label="Figures">
      <div className="head">
        <h2>After the fork</h2>
        <span className="grow" />
        {(['a', 'b'] as const).map((side) => (
          <span key={side} className="key">
            <span className="bar" style={{ width: 12, ...(side === 'a' && { background: 'var(--lane-1)' }) }} />
            <span className="clip">
              {side.toUpperCase()} {compared[side].branch}
            </span>
          </span>
        ))}
      </div>
      <div className="scroll grow">
        <table className="table tight">
          <thead>
            <tr>
              <th style={{ width: 112 }}>Metric</th>
              <th className="num">A</th>
              <th className="num">B</th>
              <th className="num">Change</th>
            </tr>
          </thead>
          <tbody>
            {metricsOf(a, b).map(({ name, tone, ...row }) => (
              <tr key={name}>
                <td>{name}</td>
                <td className="num">{row.a}</td>
                <td className="num">{row.b}</td>
                <td className={`num ${tone}`}>{row.change}</td>
              </tr>
            ))}
          </tbody>
        </table>
        <Tally title="Calls by agent and tool" items={tools} most={most} />
        <Tally
          title="Messages by speaker"
          items={agents}
          most={Math.max(1, ...agents.flatMap((agent) => [agent.a, agent.b]))}
        />
        <Chance compared={compared} sessionId={sessionId} />
      </div>
    </aside>
  );
}

/** One run of each says little: what to do about it. */
function Chance({ compared: { forkPoint }, sessionId }: { compared: Compared; sessionId: string }) {
  if (forkPoint === undefined) return null;
  return (
    <div className="sect" style={{ border: 0, display: 'grid', gap: 12 }}>
      <p className="note warn">
        <Icon name="warn" small />
        One run of each. Answers of models vary: try the change several times, against a control.
      </p>
      <CommandLine
        command={`savestate trial ${forkPoint.id} --session ${quoteArgument(sessionId)} --system 'agent=new prompt' --repeats 5`}
      />
    </div>
  );
}

function metricsOf(a: Run, b: Run): Row[] {
  const tokens = ({ totals }: Run) => (totals === undefined ? undefined : totals.inputTokens + totals.outputTokens);
  const lasted = ({ startedAt, endedAt }: Run) =>
    startedAt === undefined ? undefined : Date.parse(endedAt) - Date.parse(startedAt);
  const row = (name: string, of: (run: Run) => number | undefined, format: (value: number) => string): Row[] => {
    const [left, right] = [of(a), of(b)];
    if (left === undefined || right === undefined) return [];
    const tone = !SPENT.has(name) || left === right ? '' : right < left ? 'ok' : 'danger';
    return [{ name, a: format(left), b: format(right), change: share(left, right), tone }];
  };
  return [
    ...row('Checkpoints', (run) => run.checkpoints, String),
    ...row('Messages', (run) => run.messages, String),
    ...row('Tokens', tokens, formatShort),
    ...row('Cost', (run) => run.totals?.costUsd || undefined, formatCost),
    ...row('Time', lasted, formatDuration),
    { name: 'End', a: endOf(a), b: endOf(b), change: '', tone: '' },
  ];
}

/** Of these less is better. */
const SPENT: ReadonlySet<string> = new Set(['Tokens', 'Cost', 'Time']);

function endOf({ end, status }: Run): string {
  return end ?? lookOf(status).word.toLowerCase();
}

/** How a figure changed, in words for people. */
export function share(a: number, b: number): string {
  if (a === b) return '0';
  if (a === 0) return `+${formatShort(b)}`;
  const percent = Math.round(((b - a) / a) * 100);
  return `${percent > 0 ? '+' : '−'}${Math.abs(percent)} %`;
}

/** A speaker, or a tool and who called it, and how often on either side. */
type Counted = { readonly name: string; readonly agent?: string; readonly a: number; readonly b: number };

function Tally({ title, items, most }: { title: string; items: readonly Counted[]; most: number }) {
  if (items.length === 0) return null;
  const sorted = [...items].sort((one, two) => Math.abs(two.b - two.a) - Math.abs(one.b - one.a));
  return (
    <>
      <div className="head">
        <h2>{title}</h2>
        <span className="grow" />
        <span className="t3">sorted by difference</span>
      </div>
      <table className="table tight">
        <tbody>
          {sorted.map(({ name, agent, a, b }) => (
            <tr key={JSON.stringify([name, agent])}>
              <td title={agent === undefined ? name : `${agent}: ${name}`}>
                <span className="tally">
                  <AgentSquare name={agent ?? name} />
                  <span className={`clip ${agent === undefined ? '' : 'mono'}`}>{name}</span>
                </span>
              </td>
              <td style={{ width: 72 }}>
                <div
                  className="bar"
                  style={{ width: `${(a / most) * 100}%`, background: 'var(--lane-1)', marginBottom: 2 }}
                />
                <div className="bar" style={{ width: `${(b / most) * 100}%` }} />
              </td>
              <td className="num" style={{ width: 80 }}>
                ×{a} to ×{b}
              </td>
              <td className="num t2" style={{ width: 80 }}>
                {share(a, b)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
