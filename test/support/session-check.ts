import { StateCodec } from '../../src/core/codec/state-codec.ts';
import { parseCheckpointBody } from '../../src/core/record/checkpoint.ts';
import type { CheckpointHeader } from '../../src/core/record/checkpoint-header.ts';
import type { SessionId } from '../../src/core/record/id.ts';
import type { ChunkStorage } from '../../src/storage/contract.ts';
import { type Diary, loadState, sideSessionOf, type Told } from './session-load.ts';

const ALL = 100_000;

type Stored = { readonly header: CheckpointHeader; readonly isDeleted: boolean; readonly number: number };

/** Compares what a storage holds of a session with what the session was told. Answers each contradiction. */
export async function findContradictions(storage: ChunkStorage, diary: Diary): Promise<string[]> {
  const stored = await readBranch(storage, diary);
  const found = [
    ...diary.surprises,
    ...checkKept(stored, diary),
    ...checkSound(stored, diary),
    ...checkDeletions(stored, diary),
    ...(await checkSteps(storage, diary)),
    ...(await checkNames(storage, diary)),
    ...(await checkSideSessions(storage, diary)),
  ];
  return found.map((problem) => `${diary.sessionId}: ${problem}`);
}

/** What is wrong with what a storage holds of a session, whether or not all that the session was told of is there. */
export async function findUnsound(storage: ChunkStorage, diary: Diary): Promise<string[]> {
  const found = checkSound(await readBranch(storage, diary), diary);
  return found.map((problem) => `${diary.sessionId}: ${problem}`);
}

/** How many checkpoints that a session was told of are not there. */
export async function countLost(storage: ChunkStorage, diary: Diary): Promise<number> {
  const ids = new Set((await readBranch(storage, diary)).map(({ header }) => header.id as string));
  return [...diary.saves.values()].filter(({ told, id }) => told === 'done' && !ids.has(id ?? '')).length;
}

/** All checkpoints of the main branch, by age; their states tell which saves they are of. */
async function readBranch(storage: ChunkStorage, { sessionId, saves }: Diary): Promise<Stored[]> {
  const codec = new StateCodec();
  const numbers = new Map([...saves.keys()].map((number) => [digestOf(codec, sessionId, number), number]));
  const rows = await storage.listCheckpoints({
    sessionId,
    branch: 'main',
    order: 'oldest',
    limit: ALL,
    include: 'all',
  });
  return rows.map(({ body, digest, isDeleted }) => {
    const header = isDeleted ? (JSON.parse(body) as CheckpointHeader) : parseCheckpointBody(body, digest);
    return { header, isDeleted, number: numbers.get(header.stateDigest) ?? Number.NaN };
  });
}

function digestOf(codec: StateCodec, sessionId: string, number: number): string {
  return codec.encode(loadState(sessionId, number)).root.digest;
}

function checkKept(stored: readonly Stored[], { saves }: Diary): string[] {
  const ids = new Map(stored.map(({ number, header }) => [number, header.id as string]));
  return [...saves].flatMap(([number, { told, id }]) => {
    if (told !== 'done' || ids.get(number) === id) return [];
    return [`save ${number} was acknowledged as ${id} and ${ids.has(number) ? 'has another id' : 'is lost'}`];
  });
}

/** Nothing is there twice, or that nobody asked for, or against its word; all is in order. */
function checkSound(stored: readonly Stored[], { saves }: Diary): string[] {
  const numbers = stored.map(({ number }) => number);
  const problems = stored.flatMap(({ header, number }, at) => {
    if (Number.isNaN(number)) return [`${header.id} has a state that nobody saved`];
    if (numbers.indexOf(number) !== at) return [`save ${number} is stored twice`];
    return saves.get(number)?.told === 'refused' ? [`save ${number} was refused and is stored`] : [];
  });
  return [...problems, ...checkOrder(stored)];
}

/** Each stands on the one before, and they come in the order of the calls. */
function checkOrder(stored: readonly Stored[]): string[] {
  return stored.flatMap(({ header, number }, at) => {
    const before = stored[at - 1];
    const isInOrder = before === undefined || before.number < number;
    const isChild = header.sequence === at + 1 && header.parentId === before?.header.id;
    return isInOrder && isChild ? [] : [`save ${number} is not on top of save ${before?.number}`];
  });
}

function checkDeletions(stored: readonly Stored[], { deletions }: Diary): string[] {
  return stored.flatMap(({ header, isDeleted }) => {
    const told = deletions.get(header.id);
    return isAsTold(isDeleted, told) ? [] : [`${header.id}: told ${told}, deleted is ${isDeleted}`];
  });
}

/** Nothing that was never asked for is there. */
function isAsTold(isThere: boolean, told: Told | undefined): boolean {
  return told === 'unknown' || isThere === (told === 'done');
}

async function checkSteps(storage: ChunkStorage, { sessionId, steps }: Diary): Promise<string[]> {
  const rows = await storage.readEffects({ sessionId, branch: 'main' });
  const effects = rows.map(({ body, result }) => ({
    ...(JSON.parse(body) as { name: string; status: string }),
    result,
  }));
  return [...steps].flatMap(([number, { told, runs }]) => {
    const own = effects.filter(({ name }) => name === `step-${number}`);
    const isDone = own.some(({ status, result }) => status === 'done' && result?.text === `${number}`);
    if (own.length > 1 || runs > 1) return [`step ${number} is there ${own.length} times, and ran ${runs} times`];
    return isAsTold(isDone, told) ? [] : [`step ${number}: told ${told}, done is ${isDone}`];
  });
}

async function checkNames(storage: ChunkStorage, { sessionId, tags, forks }: Diary): Promise<string[]> {
  const refs = await storage.readRefs({ sessionId });
  const targets = new Map(refs.map(({ kind, name, target }) => [`${kind} ${name}`, target]));
  const check = (key: string, { told, id }: { told: Told; id: string }): string[] => {
    const target = targets.get(key);
    const isRight = target === undefined || target === id;
    return isRight && isAsTold(target !== undefined, told) ? [] : [`${key}: told ${told}, found ${target}`];
  };
  return [
    ...[...tags].flatMap(([number, entry]) => check(`tag tag-${number}`, entry)),
    ...[...forks].flatMap(([number, entry]) => check(`branch fork-${number}`, entry)),
  ];
}

async function checkSideSessions(storage: ChunkStorage, { sessionId, sideSessions }: Diary): Promise<string[]> {
  const sessions = new Set<string>(await storage.listSessions({ limit: ALL }));
  return [...sideSessions].flatMap(([number, told]) => {
    const isGone = !sessions.has(sideSessionOf(sessionId, number) as SessionId);
    return isAsTold(isGone, told) ? [] : [`side session ${number}: told ${told}, gone is ${isGone}`];
  });
}
