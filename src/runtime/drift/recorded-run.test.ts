import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { DriftDetector } from './drift-detector.ts';
import type { DriftEvent } from './step/drift-event.ts';

type Workspace = { files: Record<string, string>; failing: number };
type Act = { readonly name: string; readonly input: Record<string, string>; readonly apply: (work: Workspace) => void };

const VERBS = ['Trying', 'Attempting', 'Considering', 'Reworking', 'Adjusting', 'Revisiting', 'Improving', 'Checking'];
const NOUNS = [
  'parser',
  'handler',
  'layout',
  'branch',
  'lookup',
  'guard',
  'buffer',
  'token',
  'state',
  'route',
  'cache',
];

/** Words that differ at every step, as a model's do; the same for the same step, so that the test is the same every time. */
function chatter(step: number): string {
  return Array.from({ length: 14 }, (_, at) => `${NOUNS[(step * 7 + at * 5) % 11]}${step}-${at}`).join(' ');
}

/** Runs an agent over a workspace whose every state is a real checkpoint, and records what a detector is to see. */
async function record(acts: readonly Act[]): Promise<DriftEvent[]> {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const work: Workspace = { files: { 'a.ts': 'let a = 1;' }, failing: 9 };
  const events: DriftEvent[] = [];
  for (const [step, { name, input, apply }] of acts.entries()) {
    const checkpoint = await manager.get(await manager.save(work, { sessionId: 'workspace' }));
    const stateDigest = checkpoint?.stateDigest;
    events.push(
      { kind: 'message', agent: 'coder', text: `${VERBS[step % 8]} something else: ${chatter(step)}` },
      { kind: 'call', agent: 'coder', name, input, ...(stateDigest !== undefined && { stateDigest }) },
    );
    apply(work);
    events.push({ kind: 'result', name, text: `Done after ${step * 13 + 7} ms: ${chatter(step + 1000)}` });
  }
  await manager.close();
  return events;
}

const edit = (path: string, text: string): Act => ({
  name: 'edit',
  input: { path, text },
  apply: (work) => {
    work.files[path] = text;
  },
});
const undo = (path: string, text: string): Act => ({ ...edit(path, text), name: 'undo' });

function alarmOf(events: readonly DriftEvent[], without: readonly 'state-recurrence'[] = []) {
  const detector = new DriftDetector({ without });
  return events.map((event) => detector.observe(event)).find(({ status }) => status === 'drifting');
}

describe('runs recorded with checkpoints', () => {
  test('[drift.4] doing and undoing is a loop by the digests of checkpoints, though no two texts are alike', async () => {
    const round = [
      edit('a.ts', 'let a = 2;'),
      edit('b.ts', 'let b = a;'),
      undo('b.ts', ''),
      edit('c.ts', 'let c = 3;'),
      undo('c.ts', ''),
      undo('a.ts', 'let a = 1;'),
    ];
    const events = await record([round, round, round].flat());
    const alarm = alarmOf(events);
    expect(alarm?.kinds).toEqual(['loop']);
    expect(alarm?.evidence.every(({ signal }) => signal === 'state-recurrence')).toBe(true);
    expect(alarm?.index).toBeLessThan(3 * 3 * round.length);
  });

  test('[drift.4] the same talk over a workspace that moves on is none', async () => {
    const acts = Array.from({ length: 40 }, (_, at) => edit(at % 2 === 0 ? 'a.ts' : 'b.ts', `let n${at} = ${at};`));
    expect(alarmOf(await record(acts))).toBeUndefined();
  });

  test('[drift.4] going back once to try another way is none', async () => {
    const events = await record([
      edit('a.ts', 'let a = 2;'),
      undo('a.ts', 'let a = 1;'),
      edit('a.ts', 'let a = 3;'),
      undo('a.ts', 'let a = 1;'),
      edit('a.ts', 'const a = 1;'),
      edit('b.ts', 'export { a };'),
    ]);
    expect(alarmOf(events)).toBeUndefined();
  });

  test('[drift.4] without the digests the loop is not seen', async () => {
    const round = [edit('a.ts', 'let a = 2;'), undo('a.ts', 'let a = 1;')];
    const events = await record(Array.from({ length: 3 }, () => round).flat());
    expect(alarmOf(events)?.kinds).toEqual(['loop']);
    expect(alarmOf(events, ['state-recurrence'])).toBeUndefined();
  });
});
