import { expect, test } from 'vitest';
import type { SessionId } from '../../core/record/id.ts';
import { type Digest, digestText } from '../../core/tree/chunk.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { formatEffect } from '../effect/effect-record.ts';
import { chainLine } from './export.ts';

type Line = { readonly effect?: { readonly body: string }; readonly checkpoint?: { readonly body: string } };

/** The export of a session with a step in flight, each line changed. */
async function exported(change: (line: Line) => Line): Promise<string> {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await manager.session('s');
  await session.save({ a: 1 }, { metadata: { langgraph: {} } });
  await session.step('pay', () => Promise.reject(new Error('503'))).catch(() => undefined);
  let whole = '';
  for await (const part of manager.exportSession('s')) whole += part;
  const lines = whole.trimEnd().split('\n').slice(0, -1);
  let digest: Digest | '' = '';
  const texts = lines.map((line) => JSON.stringify(change(JSON.parse(line) as Line)));
  for (const text of texts) digest = chainLine(digest, text);
  return [...texts, JSON.stringify({ end: { lines: texts.length, digest } }), ''].join('\n');
}

async function importInto(manager: CheckpointManager, text: string) {
  return manager.importSession(
    (async function* () {
      yield text;
    })(),
  );
}

const changedEffect = (odd: object) => (line: Line) => {
  if (line.effect === undefined) return line;
  const place = { sessionId: 's' as SessionId, branch: 'main' };
  const { result, ...effect } = line.effect as Line['effect'] & { result?: { text: string; refs: Digest[] } };
  const { body, digest } = formatEffect(place, { ...JSON.parse(effect?.body ?? ''), ...odd }, result);
  return { effect: { ...effect, body, digest, ...(result && { result }) } } as Line;
};

const changedHeader = (odd: object) => (line: Line) => {
  if (line.checkpoint === undefined) return line;
  const body = JSON.stringify({ ...JSON.parse(line.checkpoint.body), ...odd });
  return { checkpoint: { ...line.checkpoint, body, digest: digestText(body) } } as Line;
};

test.each([
  ['a sequence that leaves no room to count', changedHeader({ sequence: Number.MAX_SAFE_INTEGER })],
  ['an attempt that leaves no room to count', changedEffect({ attempt: Number.MAX_SAFE_INTEGER })],
  ['a key with line breaks', changedEffect({ idempotencyKey: 'a\r\nX-Admin: 1' })],
  ['a step before 1970', changedEffect({ startedAtMs: -1 })],
])('[session.4] an import with %s is refused', async (_, change) => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  await expect(importInto(manager, await exported(change))).rejects.toMatchObject({ code: 'CORRUPT' });
  expect((await manager.list()).checkpoints).toEqual([]);
  await importInto(manager, await exported((line) => line));
  expect((await manager.list()).checkpoints).toHaveLength(1);
});
