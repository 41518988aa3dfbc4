import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { json, ok, run } from './support/cli.ts';
import { sharedChat } from './support/fixture.ts';

const chat = sharedChat();

type Found = {
  status: string;
  firstBad?: { id: string };
  lastGood?: { id: string };
  evaluations: number;
  isMonotone: boolean;
  flips: { sequence: number; to: string }[];
  candidates: string[];
};

async function bisect(folder: string, args: readonly string[], code = 0): Promise<Found> {
  return (await json('bisect', args, { folder, code })) as Found;
}

describe.concurrent('bisect run', () => {
  test('[cli.12] finds the first checkpoint where an expression is true', async () => {
    const { folder, ids } = await chat.copy();
    const found = await bisect(folder, ['run', '--where', 'state.plan.length === 0']);
    expect(found).toMatchObject({
      status: 'found',
      firstBad: { id: ids[6] },
      lastGood: { id: ids[5] },
      isMonotone: true,
    });
    expect(await json('show', ['first-bad', '--header'], { folder })).toMatchObject({ checkpoint: { id: ids[6] } });
    expect(await json('show', ['first-bad~1', '--header'], { folder })).toMatchObject({ checkpoint: { id: ids[5] } });
  });

  test('[cli.12] runs a command on each: 0 is good, 125 skips, 127 stops, all else is bad', async () => {
    const { folder, ids } = await chat.copy();
    const script = (name: string, body: string) => {
      writeFileSync(join(folder, name), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
      return join(folder, name);
    };
    const onState = script('plan.sh', 'echo "looks at $SAVESTATE_BISECT_TARGET"\ngrep -q greet');
    expect(await bisect(folder, ['run', '--range', 'v1..@', '--', onState])).toMatchObject({
      firstBad: { id: ids[6] },
    });
    const skipping = script('skip.sh', `[ "$SAVESTATE_BISECT_TARGET" = "${ids[6]}" ] && exit 125\ngrep -q greet`);
    const undecided = await bisect(folder, ['run', '--', skipping], 3);
    expect(undecided).toMatchObject({ status: 'undecided', candidates: [ids[6], ids[7]] });
    const stopping = await run(['bisect', 'run', '--', script('stop.sh', 'exit 127')], { folder });
    expect(stopping).toMatchObject({ code: 2, stdout: '' });
    expect(stopping.stderr).toContain('stopped the search');
    expect((await run(['bisect', 'run', '--', join(folder, 'missing')], { folder })).code).toBe(2);
  });

  test('[cli.12] looks at both ends first', async () => {
    const { folder, ids } = await chat.copy();
    expect(await bisect(folder, ['run', '--where', 'false'], 13)).toMatchObject({ status: 'no-bad', evaluations: 1 });
    expect(await bisect(folder, ['run', '--where', 'true'])).toMatchObject({
      firstBad: { id: ids[1] },
    });
    const early = await run(['bisect', 'run', '--range', 'v1..@', '--where', 'sequence > 2'], { folder });
    expect(early.code).toBe(2);
    expect(early.stderr).toContain('already bad');
    expect((await run(['bisect', 'run'], { folder })).code).toBe(2);
    expect((await run(['bisect', 'run', '--where', 'stat.plan'], { folder })).stderr).toContain(
      'Did you mean "state"?',
    );
    expect((await run(['bisect', 'run', '--where', '(('], { folder })).code).toBe(2);
    expect((await run(['bisect', 'sideways'], { folder })).code).toBe(2);
  });

  test('[cli.12] says so if good and bad alternate; --scan tells every turn', async () => {
    const { folder, ids } = await chat.copy();
    const odd = `sequence in [3, 4, 7, 8]`;
    const probed = await run(['bisect', 'run', '--where', odd], { folder });
    expect(probed.stderr).toContain('The result changes more than once');
    const scan = await bisect(folder, ['run', '--scan', '--where', odd]);
    expect(scan).toMatchObject({ firstBad: { id: ids[3] }, isMonotone: false, evaluations: 8 });
    expect(scan.flips.map(({ sequence, to }) => `${sequence} ${to}`)).toEqual(['3 bad', '5 good', '7 bad']);
    const middle = await bisect(folder, ['run', '--scan', '--where', 'sequence === 5']); // not bad at the end
    expect(middle).toMatchObject({ firstBad: { id: ids[5] } });
    expect(await bisect(folder, ['run', '--scan', '--where', 'false'], 13)).toMatchObject({ status: 'no-bad' });
  });
});

describe.concurrent('bisect by hand', () => {
  test('[cli.12] names what to look at until one is left; skips and resets', async () => {
    const { folder, ids } = await chat.copy();
    const badFrom = 4;
    let step = (await json('bisect', ['start', '@', '#1'], { folder })) as {
      status: string;
      next?: { id: string; sequence: number };
    };
    for (let count = 0; step.next !== undefined && count < 8; count++) {
      step = (await json('bisect', [step.next.sequence >= badFrom ? 'bad' : 'good'], { folder })) as typeof step;
    }
    expect(step).toMatchObject({ status: 'found', firstBad: { id: ids[badFrom] } });
    await ok(['bisect', 'reset'], { folder });
    expect((await run(['bisect', 'good'], { folder })).code).toBe(2);
    expect(await json('bisect', ['start'], { folder })).toMatchObject({ status: 'waiting' });
    expect(await json('bisect', ['bad', '#4'], { folder })).toMatchObject({ status: 'waiting' });
    expect(await json('bisect', ['good', '#2'], { folder })).toMatchObject({ status: 'testing', next: { id: ids[3] } });
    expect(await json('bisect', ['skip'], { folder })).toMatchObject({
      status: 'undecided',
      candidates: [ids[3], ids[4]],
    });
  });
});
