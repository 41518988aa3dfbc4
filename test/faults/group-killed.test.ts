import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import type { RestoredGroup } from '../../src/manager/group/group-restoring.ts';
import { Workers } from '../../src/manager/workers/workers.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { type Child, WarmChildren } from '../support/child.ts';
import { IS_FULL, reportFaults, seededRandom } from '../support/fault-report.ts';
import { temporaryFolder } from '../support/storages.ts';

const NAMES = ['ann', 'bob', 'cid'];
const ROLES = [...NAMES, 'coordinator'] as const;
const TRIALS = IS_FULL ? 100 : 10;
const TIMEOUT_MS = 400;
/** Whoever takes longer to come to an end than this, on the slowest machine, hangs. */
const PATIENCE_MS = 30_000;

const children = new WarmChildren('grouper', ROLES.length);

type MemberLog = { readonly sent: Record<string, { count: number }>; readonly log: Record<string, readonly string[]> };
type Processes = ReadonlyMap<string, Child>;

async function start(path: string, lanes: string): Promise<Processes> {
  const processes = new Map<string, Child>();
  for (const role of ROLES) {
    const child = await children.next();
    child.tell({ storage: { path, durability: 'process' }, role, names: NAMES, lanes, timeoutMs: TIMEOUT_MS });
    processes.set(role, child);
  }
  for (const child of processes.values()) await child.heard('open');
  return processes;
}

/** Everyone who is left comes to an end: cuts under way are over, memberships closed. */
async function stop(processes: Processes): Promise<string[]> {
  const faults: string[] = [];
  for (const child of processes.values()) child.tell('stop');
  const late = sleep(PATIENCE_MS, 'late', { ref: false });
  for (const [role, child] of processes) {
    const ending = await Promise.race([child.ended, late]);
    if (ending === 'late') faults.push(`${role} hangs`);
    else if (typeof ending === 'object' && ending.signal === null && ending.code !== 0)
      faults.push(`${role} ended with ${ending.code}`);
    if (child.stderr !== '') faults.push(`${role}: ${child.stderr}`);
    for (const { error } of child.said) if (error !== undefined) faults.push(`${role} was told ${String(error)}`);
    for (const { refused, code } of child.said)
      if (refused !== undefined && code !== 'CONFLICT') faults.push(`${role}: ${String(refused)}`);
  }
  return faults;
}

/** What contradicts itself in a restored group: each message that was sent before the cut must be there once. */
function findContradictions({ checkpoint, members }: RestoredGroup): string[] {
  const faults: string[] = [];
  for (const [to, { state, inFlight, received }] of members) {
    for (const [from, texts] of Object.entries((state as MemberLog).log)) {
      const delivered = [...texts, ...inFlight.filter((each) => each.from === from).map(({ message }) => message)];
      const sent = (members.get(from)?.state as MemberLog | undefined)?.sent[to]?.count ?? -1;
      const expected = Array.from({ length: sent }, (_, at) => `${from}>${to} ${at + 1}`);
      if (JSON.stringify(delivered) !== JSON.stringify(expected) || received[from] !== texts.length)
        faults.push(`${checkpoint.id}: ${from} sent ${sent} to ${to}, which got ${delivered.join(', ')}`);
    }
  }
  return faults;
}

/** Looks at everything that is left, as the next process would. */
async function inspect(path: string, told: ReadonlySet<unknown>): Promise<{ faults: string[]; groups: number }> {
  const storage = new SqliteCheckpointStorage({ path });
  const manager = new CheckpointManager({ storage });
  const faults: string[] = [];
  const { checkpoints } = await manager.list({ type: 'group' }, { limit: 1000 });
  for (const { id } of checkpoints) {
    const restored = await new Workers(manager).restoreGroup(id).catch((error: unknown) => String(error));
    faults.push(...(typeof restored === 'string' ? [restored] : findContradictions(restored)));
  }
  const stored = new Set<unknown>(checkpoints.map(({ id }) => id));
  for (const id of told) if (!stored.has(id)) faults.push(`${String(id)} was told and is not there`);
  await sleep(TIMEOUT_MS); // a cut that nobody was left to abort is over by now
  const again = await new Workers(manager).saveGroup([{ name: 'ann', agent: { n: 1 }, sessionId: 'ann' }], {
    groupId: 'team',
  });
  await manager.prune();
  const pinned = (await storage.readRefs({ kind: 'pin' })).map(({ name }) => name.split(':')[1]);
  const live = new Set<unknown>([...stored, again.id]);
  if (pinned.some((id) => !live.has(id)) || pinned.length !== 1 + NAMES.length * stored.size)
    faults.push(`${pinned.length} pins for ${stored.size} groups`);
  const reports = (await storage.listSessions({ limit: 1000 })).filter((id) => id.includes('/cut/'));
  const left = [...(await storage.readRefs({ kind: 'group' })).map(({ name }) => name), ...reports];
  if (left.length > 0) faults.push(`left over: ${left.join(', ')}`);
  const { findings } = await manager.verify();
  faults.push(...findings.map(({ subject, problem }) => `${subject}: ${problem}`));
  await manager.close();
  return { faults, groups: stored.size };
}

test('[group.9] members and coordinators that are killed leave whole group checkpoints or none, and nobody hangs', async () => {
  const random = seededRandom();
  const faults: string[] = [];
  let groups = 0;
  for (let trial = 0; trial < TRIALS; trial++) {
    const folder = temporaryFolder();
    const [path, lanes] = [join(folder, 'group.db'), join(folder, 'lanes')];
    mkdirSync(lanes);
    const processes = await start(path, lanes);
    if (random.below(2) === 0) await processes.get('coordinator')?.heard('saved');
    await sleep(random.below(150));
    const victim = random.pick(ROLES as unknown as readonly [string, ...string[]]);
    await processes.get(victim)?.kill();
    await sleep(random.below(2 * TIMEOUT_MS));
    faults.push(...(await stop(processes)).map((fault) => `${trial} (${victim} killed): ${fault}`));
    const said = [...processes.values()].flatMap((child) => child.said);
    const outcomes = said.flatMap(({ outcome }) =>
      outcome === undefined ? [] : [outcome as { checkpointId?: string }],
    );
    const told = [...said.map(({ saved }) => saved), ...outcomes.map(({ checkpointId }) => checkpointId)];
    const found = await inspect(path, new Set(told.filter((id) => id !== undefined)));
    faults.push(...found.faults.map((fault) => `${trial} (${victim} killed): ${fault}`));
    groups += found.groups;
  }
  reportFaults('groups on sqlite with a process killed', {
    trials: TRIALS,
    failures: faults,
    notes: `groups=${groups} seed=${random.seed}`,
  });
  expect(faults).toEqual([]);
  expect(groups).toBeGreaterThan(0);
});
