import { useRef, useState } from 'react';
import { quoteArgument } from '../data/format.ts';
import { useReply } from '../data/use-reply.ts';
import { useKeys } from '../frame/keys.ts';
import { CodeLines, CommandLine } from '../parts/command.tsx';
import { Icon } from '../parts/icon.tsx';
import { Trouble } from '../parts/trouble.tsx';
import { MODES, type Mode, overOf, type RunView } from './use-run.ts';

const ROUNDS = 5;
const MODE_WORDS: Readonly<Record<Mode, string>> = {
  live: 'Every model and tool call is made again',
  recorded: 'Recorded answers until it differs, then live',
  frozen: 'Recorded answers only; stops where one is missing',
};

/** Where a run begins: the selected checkpoint, and whether that is where the session was left. */
export type Origin = { readonly sessionId: string; readonly id: string | undefined; readonly isHead: boolean };

/** Lets the team go on, or pauses it; without a team, what to type or write instead. */
export function RunMenu({ view, origin }: { view: RunView; origin: Origin }) {
  const menu = useRef<HTMLDivElement>(null);
  const { team, isRunning, start, pause } = view;
  const isOver = overOf(view.run) !== undefined;
  const open = () => menu.current?.togglePopover();
  useKeys({
    r: () => {
      if (team === undefined || isRunning || !origin.isHead) return;
      if (isOver) open();
      else void start({ rounds: 1 }, true);
    },
    R: open,
    ' ': () => isRunning && pause(),
  });
  return (
    <>
      <button type="button" className="btn anchor-run" onClick={open} aria-haspopup="dialog" disabled={isRunning}>
        <Icon name="play" small />
        Run
        <Icon name="down" small />
      </button>
      {team !== undefined && (
        <button
          type="button"
          className="btn"
          disabled={!isRunning}
          title={isRunning ? 'Stop after what is under way; what was done stays' : 'Nothing is run from here'}
          onClick={pause}
        >
          <Icon name="pause" small />
          Pause
        </button>
      )}
      <div ref={menu} popover="auto" className="menu run" role="dialog" aria-label="Run">
        {team === undefined ? (
          <WithoutTeam view={view} origin={origin} />
        ) : (
          <RunForm view={view} origin={origin} onDone={() => menu.current?.hidePopover()} />
        )}
      </div>
    </>
  );
}

function RunForm({ view, origin, onDone }: { view: RunView; origin: Origin; onDone: () => void }) {
  const [rounds, setRounds] = useState(ROUNDS);
  const [mode, setMode] = useState<Mode>('live');
  const [prompt, setPrompt] = useState('');
  const isInPlace = origin.isHead && mode === 'live';
  const isValid = Number.isInteger(rounds) && rounds >= 1 && rounds <= 1_000;
  const over = isInPlace && prompt === '' ? overOf(view.run) : undefined;
  const run = async () => {
    const place = isInPlace || origin.id === undefined ? {} : { at: origin.id, mode };
    // A new branch begins at a checkpoint, which does not move.
    if (await view.start({ ...place, rounds, ...(prompt !== '' && { prompt }) }, isInPlace)) onDone();
  };
  return (
    <>
      <div className="sect" style={{ display: 'grid', gap: 12 }}>
        <h3>{isInPlace ? `Let ${view.team} go on` : `Let ${view.team} go on from here, as a new branch`}</h3>
        <ModeChoice rounds={rounds} mode={mode} onRounds={setRounds} onMode={setMode} />
        <label className="field">
          <span>Say this first</span>
          <textarea
            className="input"
            rows={2}
            placeholder="Nothing"
            value={prompt}
            onChange={(event) => setPrompt(event.target.value)}
          />
        </label>
        {over !== undefined && (
          <p className="note">It has ended: {over} To go on, say something first, or begin at an earlier step.</p>
        )}
        {view.error !== undefined && <Trouble error={view.error} compact />}
      </div>
      <div className="sect">
        <CommandLine command={commandOf(origin, { rounds, mode, prompt, isInPlace })} />
      </div>
      <div className="foot">
        {!isValid && <span className="t3">1 to 1,000 rounds</span>}
        <button type="button" className="btn" disabled={!isValid || over !== undefined} onClick={() => void run()}>
          <Icon name="play" small />
          {rounds === 1 ? 'Run 1 round' : `Run ${rounds} rounds`}
        </button>
      </div>
    </>
  );
}

type ChoiceProps = {
  rounds: number;
  mode: Mode;
  onRounds: (rounds: number) => void;
  onMode: (mode: Mode) => void;
};

/** How many rounds, and which calls are made again. */
export function ModeChoice({ rounds, mode, onRounds, onMode }: ChoiceProps) {
  return (
    <div style={{ display: 'grid', gap: 8 }}>
      <div style={{ display: 'flex', gap: 8, alignItems: 'center' }}>
        <fieldset className="seg" aria-label="Calls">
          {MODES.map((name) => (
            <label key={name}>
              <input type="radio" name="mode" checked={mode === name} onChange={() => onMode(name)} />
              {name[0]?.toUpperCase() + name.slice(1)}
            </label>
          ))}
        </fieldset>
        <span className="grow" />
        <label style={{ display: 'flex', gap: 8, alignItems: 'center' }}>
          <span className="t2">Rounds</span>
          <input
            className="input num"
            style={{ width: 72 }}
            type="number"
            min={1}
            max={1_000}
            value={Number.isNaN(rounds) ? '' : rounds}
            onChange={(event) => onRounds(event.target.valueAsNumber)}
          />
        </label>
      </div>
      <span className="t3">{MODE_WORDS[mode]}</span>
    </div>
  );
}

/** The command line that does the same. */
function commandOf(
  { sessionId, id = '' }: Origin,
  run: { rounds: number; mode: Mode; prompt: string; isInPlace: boolean },
): string {
  const session = `--session ${quoteArgument(sessionId)}`;
  const said = run.prompt === '' ? '' : ` --prompt ${quoteArgument(run.prompt)}`;
  if (!run.isInPlace) return `savestate resume ${id} ${session} -n ${run.rounds} --mode ${run.mode}${said}`;
  return run.prompt === ''
    ? `savestate continue ${session} -n ${run.rounds}`
    : `savestate run ${session} -n ${run.rounds} ${quoteArgument(run.prompt)}`;
}

/** What to type and what to write where the server has no team. */
function WithoutTeam({ view, origin }: { view: RunView; origin: Origin }) {
  const kind = view.run?.kind;
  const isTeam = kind === 'group_chat' || kind === 'fleet';
  const server = useReply('GET /v1/server').value;
  return (
    <div className="sect" style={{ display: 'grid', gap: 8, border: 0 }}>
      <h3>Your program runs it</h3>
      <p className="t2">{wordsOf(kind, origin)}</p>
      {isTeam && server?.address !== undefined && <CommandLine command="savestate studio --team team.yaml" />}
      {continueCommands(kind, origin).map((command) => (
        <CommandLine key={command} command={command} />
      ))}
      <CodeLines code={codeOf(kind, origin)} />
    </div>
  );
}

function wordsOf(kind: string | undefined, { isHead }: Origin): string {
  if (kind === 'workflow_run') return 'Go on from the command line, or from code.';
  if (kind !== undefined) return 'This server has no team. Start it with one, or go on from the command line or code.';
  return isHead
    ? 'Start your program again: it opens the session where it was left. The command shows what it finds.'
    : 'Make this step the current one, then start your program; or begin a branch there from code.';
}

/** The command that goes on; where only the person's program can, what makes or shows the state that it finds. */
function continueCommands(kind: string | undefined, { sessionId, id = '', isHead }: Origin): readonly string[] {
  const session = `--session ${quoteArgument(sessionId)}`;
  if (kind !== undefined) return [isHead ? `savestate continue ${session}` : `savestate resume ${id} ${session}`];
  return [isHead ? `savestate show @ ${session}` : `savestate rewind ${id} ${session}`];
}

function codeOf(kind: string | undefined, { sessionId, id = '', isHead }: Origin): string {
  const name = JSON.stringify(sessionId);
  const at = JSON.stringify(id);
  if (kind === 'group_chat')
    return `const restorer = new CheckpointRestorer({ manager, registry });\nawait restorer.continue(${at}, { rounds: ${ROUNDS} });`;
  if (kind === 'fleet')
    return `const restorer = new FleetRestorer({ manager, registry });\nawait restorer.continue(${at}, { rounds: ${ROUNDS} });`;
  if (kind === 'workflow_run') return `await executor.run({ workflow, sessionId: ${name} });`;
  return isHead
    ? `const session = await manager.session(${name});\nconst { state } = session;`
    : `const { branch } = await manager.fork(${at});\nconst session = await manager.session(${name}, { branch });`;
}
