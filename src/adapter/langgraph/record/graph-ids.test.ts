import { uuid6 } from '@langchain/langgraph-checkpoint';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { drawn } from '../../../../test/support/trials.ts';
import { anyCharacter } from '../../../../test/support/values.ts';
import { isCheckpointId, parseSessionId } from '../../../core/record/id.ts';
import { cursorBefore, deriveCheckpointId } from './checkpoint-id.ts';
import { placeOf, sessionOf } from './thread-session.ts';

const NAMES = fc.oneof(
  fc.string({ maxLength: 30 }),
  fc.string({ unit: anyCharacter, maxLength: 30 }),
  fc.constantFrom('', '/', '%', '#', 'a/b', 'a%002fb', '__proto__', '\ud800', '\n', 'lg/', 'x'.repeat(600)),
);
const THREADS = NAMES.filter((name) => name !== '');

describe('[langgraph.2] a thread and a namespace are one session', () => {
  test('of any names, as a valid session id that can be read back', () => {
    fc.assert(
      fc.property(THREADS, NAMES, (threadId, namespace) => {
        const sessionId = sessionOf({ threadId, namespace });
        expect(parseSessionId(sessionId)).toBe(sessionId);
        const isLong = sessionId.includes('#');
        expect(placeOf(sessionId)).toEqual(isLong ? undefined : { threadId, namespace });
      }),
      drawn(20_000),
    );
  });

  test('and two places never share one', () => {
    const sessions = new Map<string, string>();
    fc.assert(
      fc.property(THREADS, NAMES, (threadId, namespace) => {
        const sessionId = sessionOf({ threadId, namespace });
        const place = JSON.stringify([threadId, namespace]);
        expect(sessions.get(sessionId) ?? place).toBe(place);
        sessions.set(sessionId, place);
      }),
      drawn(30_000),
    );
  });

  test('the session of a plain thread reads like it', () => {
    expect(sessionOf({ threadId: 'user-7', namespace: '' })).toBe('lg/user-7');
    expect(sessionOf({ threadId: 'user-7', namespace: 'child:1|grand:2' })).toBe('lg/user-7/child:1|grand:2');
    expect(placeOf('somebody-else')).toBeUndefined();
  });
});

describe("[langgraph.2] our id follows from LangGraph's", () => {
  const session = sessionOf({ threadId: 't', namespace: '' });
  const other = sessionOf({ threadId: 't', namespace: 'child' });

  test('in the same order, and another one in each session', () => {
    const graphIds = Array.from({ length: 3000 }, (_, at) => uuid6(at % 7 === 0 ? -1 : at));
    const ids = graphIds.map((id) => deriveCheckpointId(session, id) ?? '');
    expect(ids.every(isCheckpointId)).toBe(true);
    expect(ids.toSorted()).toEqual(ids);
    expect(new Set([...ids, ...graphIds.map((id) => deriveCheckpointId(other, id))]).size).toBe(6000);
  });

  test('a cursor is between what is smaller and the id itself, in every session', () => {
    const [small = '', id = ''] = [uuid6(1), uuid6(2)];
    for (const sessionId of [session, other]) {
      expect((deriveCheckpointId(sessionId, small) ?? '') < (cursorBefore(id) ?? '')).toBe(true);
      expect((cursorBefore(id) ?? '') <= (deriveCheckpointId(sessionId, id) ?? '')).toBe(true);
    }
  });

  test('ids of another form have none', () => {
    for (const id of [
      '1',
      '',
      'x'.repeat(36),
      '1f1e1553-eea0-4570-8003-e5131c7fe351',
      '00000000-0000-6000-8000-000000000000',
    ])
      expect(deriveCheckpointId(session, id)).toBeUndefined();
  });
});
