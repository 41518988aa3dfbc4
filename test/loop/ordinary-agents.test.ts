import { describe, expect, test } from 'vitest';
import { type DriftAssessment, DriftDetector, type DriftEvent } from '../../src/runtime/drift/index.ts';
import type { LoopAgent, Turn } from '../../src/runtime/loop/index.ts';
import { LATER } from '../support/later.ts';
import { type Act, AGENTS, eventsOf, type OrdinaryAgent, Random } from './ordinary-agents.ts';
import { MINUTE, World } from './world.ts';

const TURNS = 300;
const each = test.each(Object.entries(AGENTS));

/** A detector that is told only what happens and when: no jobs, no states. */
class Watched {
  readonly #detector = new DriftDetector();
  #atMs = 0;

  show(event: DriftEvent): DriftAssessment {
    return this.#detector.observe({ agent: 'worker', at: this.#atMs, ...event });
  }

  /** What the watch says after each part of an act. */
  see(act: Act): DriftAssessment[] {
    this.#atMs += act.kind === 'wait' ? act.ms : 500;
    return eventsOf(act).map((event) => this.show(event));
  }

  /** The alarms of ordinary turns. */
  work(agent: OrdinaryAgent, { seed, turns }: { seed: number; turns: number }): readonly string[] {
    const random = new Random(seed);
    const seen = Array.from({ length: turns }, (_, at) => agent.turn(random, at + 1).flatMap((act) => this.see(act)));
    return seen.flat().flatMap(({ status, summary }) => (status === 'drifting' ? [summary] : []));
  }
}

describe('ordinary agents, watched by a detector', () => {
  each('[drift.8] %s raises no alarm in 300 turns, whether its goal is told, stated or unknown', (_, agent) => {
    const stated = `You are a careful agent. Your goal is to ${agent.goal}. Be brief.`;
    for (const [seed, goal] of [
      { kind: 'goal', role: 'user', text: agent.goal },
      { kind: 'system', role: 'system', text: stated },
      { kind: 'cycle' },
    ].entries()) {
      const watched = new Watched();
      watched.show(goal);
      expect(watched.work(agent, { seed: seed + 1, turns: TURNS })).toEqual([]);
    }
  });

  each('[drift.2] a fault of %s is found after 50 turns', (_, agent) => {
    const watched = new Watched();
    watched.show({ kind: 'goal', role: 'user', text: agent.goal });
    expect(watched.work(agent, { seed: 4, turns: 50 })).toEqual([]);
    const random = new Random(5);
    const acts = Array.from({ length: agent.within }, (_act, at) => agent.fault(random, at)).flat();
    const found = acts
      .slice(0, agent.within)
      .flatMap((act) => watched.see(act))
      .find(({ status }) => status === 'drifting');
    expect(agent.kinds).toContain(found?.kinds[0]);
  });
});

/** Runs an agent in a loop with default options, a message for each turn; returns what was said against it. */
async function alarmsIn(agent: OrdinaryAgent, turns: readonly (readonly Act[])[]): Promise<readonly string[]> {
  const world = new World();
  const pause = (delayMs: number) =>
    new Promise<void>((resolve) => void world.clock.setTimer(resolve, { delayMs, keepsProcessAlive: true }));
  const run = async (turn: Turn, act: Act): Promise<void> => {
    if (act.kind === 'wait') return pause(act.ms);
    if (act.kind !== 'call') return void eventsOf(act).forEach((event) => void turn.observe(event));
    await turn.call(act.name, act.input).catch((error: Error) => error.message);
  };
  const results = new Map<string, Act & { kind: 'call' }>();
  const tool = (name: string) => ({
    run: (): string => {
      const { text, isError = false } = results.get(name) as Act & { kind: 'call' };
      if (isError) throw new Error(text);
      return text;
    },
  });
  const names = new Set(turns.flat().flatMap((act) => (act.kind === 'call' ? [act.name] : [])));
  const createAgent = (): LoopAgent => ({
    tools: Object.fromEntries([...names].map((name) => [name, tool(name)])),
    handle: async ({ body }, turn) => {
      for (const act of turns[Number(body)] ?? []) {
        if (act.kind === 'call') results.set(act.name, act);
        await run(turn, act);
      }
    },
  });
  const life = await world.start({ createAgent, initial: { context: { goals: [agent.goal] } } });
  for (const number of turns.keys()) {
    await life.loop.deliver({ id: `m${number}`, body: number });
    await world.clock.pass(2 * MINUTE);
  }
  return life.events.flatMap((event) => (event.kind === 'drift' ? [event.reading.summary] : []));
}

describe('ordinary agents in a loop with default options', () => {
  each('[loop.28] %s raises no alarm in 300 turns', LATER, async (_, agent) => {
    const random = new Random(6);
    expect(
      await alarmsIn(
        agent,
        Array.from({ length: TURNS }, (_turn, at) => agent.turn(random, at + 1)),
      ),
    ).toEqual([]);
  });

  each('[loop.28] a fault of %s is found in a turn', async (_, agent) => {
    const random = new Random(7);
    const healthy = Array.from({ length: 20 }, (_turn, at) => agent.turn(random, at + 1));
    const faulty = Array.from({ length: 60 }, (_act, at) => agent.fault(random, at)).flat();
    expect((await alarmsIn(agent, [...healthy, faulty])).length).toBeGreaterThan(0);
  });
});
