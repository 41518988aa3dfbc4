import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createCrew, createRunner } from '../../../test/fleet/crew.ts';
import { FleetRestorer } from './fleet-restorer.ts';
import { parseFleetState } from './fleet-state.ts';

type Assessment = 'nonsense' | { readonly progress?: boolean; readonly loop?: boolean; readonly satisfied?: boolean };
type Limits = { readonly maxRoundCount: number; readonly maxStallCount: number; readonly maxResetCount: number };

const assessment: fc.Arbitrary<Assessment> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ progress: fc.boolean(), loop: fc.boolean() }) },
  { weight: 2, arbitrary: fc.constant('nonsense' as const) },
  { weight: 1, arbitrary: fc.constant({ satisfied: true }) },
);
const limits: fc.Arbitrary<Limits> = fc.record({
  maxRoundCount: fc.integer({ min: 1, max: 12 }),
  maxStallCount: fc.integer({ min: 0, max: 2 }),
  maxResetCount: fc.integer({ min: 0, max: 2 }),
});

/** What the rules say, counted without a fleet. After the last assessment it is satisfied. */
function expectEnd(assessments: readonly Assessment[], { maxRoundCount, maxStallCount, maxResetCount }: Limits) {
  const rest = [...assessments];
  let [rounds, stalls, resets] = [0, 0, 0];
  while (rounds < maxRoundCount) {
    rounds++;
    const heard = [1, 2, 3].reduce<Assessment>(
      (last) => (last === 'nonsense' ? (rest.shift() ?? { satisfied: true }) : last),
      'nonsense',
    );
    if (heard !== 'nonsense') {
      stalls = heard.progress === false || heard.loop === true ? stalls + 1 : Math.max(0, stalls - 1);
      if (heard.satisfied === true) return { reason: 'satisfied', rounds, resets };
      if (stalls <= maxStallCount) continue;
    }
    if (resets === maxResetCount) return { reason: 'max_resets', rounds, resets };
    resets++;
    stalls = 0;
  }
  return { reason: 'max_rounds', rounds, resets };
}

test('[fleet.3] [fleet.4] whatever a model thinks, rounds, stalls and resets end as the rules say, and a replay from every checkpoint ends the same', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(assessment, { maxLength: 25 }), limits, async (assessments, given) => {
      const crew = createCrew(
        { assess: (_, asked) => (asked > assessments.length ? { satisfied: true } : (assessments[asked - 1] ?? '')) },
        given,
      );
      const { runner, manager } = createRunner(crew);
      const result = await runner.run({ task: 'Anything.' });
      const { rounds, resets } = result;
      expect({ reason: result.status === 'ended' && result.end.reason, rounds, resets }).toEqual(
        expectEnd(assessments, given),
      );
      const last = parseFleetState(await manager.load(result.checkpointId ?? ''));
      const { checkpoints: all } = await manager.list({ sessionId: 'crew' });
      const calls = crew.model.requests.length;
      const restorer = new FleetRestorer({ manager, registry: crew.registry });
      for (const { id } of all) {
        const { checkpointId } = await restorer.continue(id, { mode: 'frozen' });
        expect(parseFleetState(await manager.load(checkpointId ?? ''))).toEqual(last);
      }
      expect(crew.model.requests.length).toBe(calls);
      await manager.close();
    }),
    { numRuns: 40 },
  );
});
