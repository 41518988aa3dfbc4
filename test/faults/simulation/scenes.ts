import {
  type Command,
  type Drawn,
  group,
  judge,
  LEASE_MS,
  type Place,
  retry,
  SESSIONS,
  saveTo,
  tagAt,
  takeLease,
  transferOf,
} from './commands.ts';
import { type SimulatedProcess, turns, type World } from './world.ts';

const MAX_TRANSFER_TURNS = 400;

const otherThan = (world: World, process: SimulatedProcess): SimulatedProcess =>
  world.processes.find((each) => each !== process) ?? world.start();

const somewhere = (world: World): Omit<Place, 'process'> => ({
  sessionId: world.random.pick(SESSIONS),
  branch: 'main',
});

/** A holder stands still past its time; another takes over, and both save. */
const takeOver: Command = async (world, model, process) => {
  const place = somewhere(world);
  const other = otherThan(world, process);
  await takeLease(world, model, { process, ...place });
  world.clock.skip(LEASE_MS + 1);
  await takeLease(world, model, { process: other, ...place });
  await Promise.all([process, other].map((each) => saveTo(world, model, { process: each, ...place })));
};

/** Somebody names what somebody else is about to delete. */
const tagWhilePruning: Command = async (world, model, process) => {
  const place = { process, ...somewhere(world) };
  for (let count = 0; count < 3; count++) await saveTo(world, model, place);
  const saved = model.acknowledged().filter(({ sessionId }) => sessionId === place.sessionId);
  const other = otherThan(world, process);
  const pruning = pruneTo(world, other, place.sessionId);
  await Promise.all([pruning, ...saved.slice(-3, -1).map((attempt) => tagAt(world, model, { process, attempt }))]);
};

/** Keeps only the newest checkpoints. */
async function pruneTo(world: World, process: SimulatedProcess, sessionId?: string): Promise<void> {
  judge(world, 'prune', await process.call(() => process.manager.prune({ policy: { keepLast: 1 }, sessionId })));
}

/** A process dies before it hears that its save is stored; its user saves again from another one. */
const loseAnswer: Command = async (world, model, process) => {
  process.diesAfterCommit = true;
  await saveTo(world, model, { process, ...somewhere(world), hasKey: true });
  world.kill(process);
  await retry(world, model, otherThan(world, process));
};

/** A process dies while it brings a session to the other store. */
const dieImporting: Command = async (world, model, process) => {
  const place = { process, ...somewhere(world) };
  for (let count = 0; count < 3; count++) await saveTo(world, model, place);
  const bringing = transferOf(world, model, place);
  await turns(world.random.below(MAX_TRANSFER_TURNS));
  world.kill(process);
  await bringing;
};

/** Of two groups the first is named, so that its members are needed after the second. */
const keepGroup: Command = async (world, model, process) => {
  await group(world, model, process);
  const id = [...model.groups.keys()].at(-1);
  if (id === undefined) return;
  judge(world, 'tag a group', await process.call(() => process.manager.tag(id, `t${model.next()}`)));
  await group(world, model, process);
  await pruneTo(world, process);
};

/** Commands that follow on each other, by how often they come. */
export const SCENES: Drawn = [
  [3, 'take over', takeOver],
  [3, 'tag while pruning', tagWhilePruning],
  [3, 'lose an answer', loseAnswer],
  [2, 'die importing', dieImporting],
  [2, 'keep a group', keepGroup],
];
