/** A state that uses every kind of value, long lists, a large object, a long text, bytes. */
export function goldenState(turns) {
  return {
    title: 'golden',
    messages: Array.from({ length: turns }, (_, i) => ({ id: `m${i}`, role: i % 2 === 0 ? 'user' : 'assistant', text: `Message number ${i}. `.repeat((i % 7) * 5 + 2) })),
    numbers: Array.from({ length: 400 }, (_, i) => i * i),
    files: Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`src/file-${i}.ts`, { size: i * 100, body: `line ${i}\n`.repeat(i) }])),
    long: Array.from({ length: 4000 }, (_, i) => `word${(i * 7919) % 1000}`).join(' '),
    bytes: Uint8Array.from({ length: 30_000 }, (_, i) => (i * 31) % 256),
    special: [undefined, 12345678901234567890n, new Date(0), new Map([['k', new Set([1, -0, Number.NaN])]]), /a+/gi, new URL('http://h.example/p?q#f'), Number.POSITIVE_INFINITY],
    error: Object.assign(new RangeError('out of range'), { stack: 'RangeError: out of range\n    at golden', code: 'E_GOLDEN' }),
    odd: JSON.parse('{"__proto__":{"polluted":true},"$":["undefined"],"":"empty","10":"ten","2":"two"}'),
    oddKeys: { 'say "hi"': 1, 'back\\slash': [2], 'line\nfeed': { '\ud800': 3 } },
  };
}

/** A short history with everything a storage holds: checkpoints, a fork with an edit, effects, a tag, a pin, tombstones. */
export async function goldenHistory(manager) {
  const session = await manager.session('golden');
  const ids = [];
  for (const turns of [0, 1, 2, 10, 40, 41, 42]) {
    await session.step('model', () => ({ turns, text: 'answer '.repeat(turns * 10) }), { input: turns });
    ids.push(await session.save(goldenState(turns), { type: 'auto', trigger: 'message_appended', agentId: 'a-1', userId: 'u-1', status: 'RUNNING', metadata: { turns } }));
  }
  await manager.fork(ids[4], { branch: 'edited', edit: [{ op: 'replace', path: '/title', value: 'edited' }], author: 'golden', reason: 'to have a fork' });
  await manager.tag(ids[3], 'v1');
  await manager.pin(ids[2]);
  await manager.delete(ids[1], { reason: 'to have a tombstone' });
  return ids;
}
