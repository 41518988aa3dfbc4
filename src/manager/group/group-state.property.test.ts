import fc from 'fast-check';
import { expect, test } from 'vitest';
import { drawn } from '../../../test/support/trials.ts';
import { hasErrorCode } from '../../core/errors.ts';
import { type Channels, findInFlight } from './group-state.ts';

const NAMES = ['a', 'b', 'c'] as const;
type Name = (typeof NAMES)[number];

/** What happens in a group: a message or a confirmation is sent, or the next thing on its way arrives, or a member is cut. */
type Happening = { readonly kind: 'send' | 'confirm' | 'arrive' | 'cut'; readonly from: Name; readonly to: Name };

const happening: fc.Arbitrary<Happening> = fc.record({
  kind: fc.constantFrom('send', 'send', 'send', 'arrive', 'arrive', 'arrive', 'confirm', 'confirm', 'cut'),
  from: fc.constantFrom(...NAMES),
  to: fc.constantFrom(...NAMES),
});

/** A lane from one member to another: messages and confirmations arrive in the order they were sent in. */
type Parcel = { readonly message: string } | { readonly confirmed: number };

/** A member that numbers what it sends, keeps it until it is confirmed, and notes all that it received. */
class Member {
  readonly sent = new Map<Name, { count: number; unconfirmed: string[] }>();
  readonly log = new Map<Name, string[]>();
  cut: { readonly channels: Channels; readonly log: ReadonlyMap<Name, readonly string[]> } | undefined;

  send(to: Name, text: string): Parcel {
    const channel = this.sent.get(to) ?? { count: 0, unconfirmed: [] };
    channel.count++;
    channel.unconfirmed.push(text);
    this.sent.set(to, channel);
    return { message: text };
  }

  take(from: Name, parcel: Parcel): void {
    if ('message' in parcel) this.log.set(from, [...(this.log.get(from) ?? []), parcel.message]);
    else {
      const channel = this.sent.get(from);
      if (channel !== undefined)
        channel.unconfirmed.splice(0, parcel.confirmed - (channel.count - channel.unconfirmed.length));
    }
  }

  takeCut(): void {
    this.cut ??= structuredClone({
      channels: { sent: this.sent, received: new Map([...this.log].map(([from, { length }]) => [from, length])) },
      log: this.log,
    });
  }
}

/** Lets a group live; afterwards every member has been cut. `isStrict`: one that was cut sends nothing more. */
function live(happenings: readonly Happening[], { isStrict }: { isStrict: boolean }): Map<Name, Member> {
  const members = new Map(NAMES.map((name) => [name, new Member()]));
  const lanes = new Map<string, Parcel[]>();
  const get = (name: Name) => members.get(name) as Member;
  const lane = (from: Name, to: Name): Parcel[] => {
    const key = `${from}>${to}`;
    if (!lanes.has(key)) lanes.set(key, []);
    return lanes.get(key) as Parcel[];
  };
  let count = 0;
  for (const { kind, from, to } of happenings) {
    const maySend = !isStrict || get(from).cut === undefined;
    if (kind === 'cut') get(from).takeCut();
    else if (kind === 'send' && maySend) lane(from, to).push(get(from).send(to, `${from}${to}${++count}`));
    else if (kind === 'confirm' && maySend) lane(from, to).push({ confirmed: get(from).log.get(to)?.length ?? 0 });
    else if (kind === 'arrive') {
      const parcel = lane(from, to).shift();
      if (parcel !== undefined) get(to).take(from, parcel);
    }
  }
  for (const member of members.values()) member.takeCut();
  return members;
}

/** What each member has received from each other one after a restore that delivers what was in flight. */
function restore(members: ReadonlyMap<Name, Member>): Map<string, readonly string[]> {
  const received = new Map<string, string[]>();
  const channels = new Map<string, Channels>();
  for (const [to, { cut }] of members) {
    if (cut !== undefined) channels.set(to, cut.channels);
    for (const [from, texts] of cut?.log ?? []) received.set(`${from}${to}`, [...texts]);
  }
  for (const { from, to, number, message } of findInFlight(channels)) {
    const texts = received.get(`${from}${to}`) ?? [];
    expect(number).toBe(texts.length + 1);
    received.set(`${from}${to}`, [...texts, message as string]);
  }
  return received;
}

/** What had been sent at the cut, as the numbers say: a prefix of all that was ever sent. */
function expectEachOnce(members: ReadonlyMap<Name, Member>, received: ReadonlyMap<string, readonly string[]>): void {
  for (const [from, { cut }] of members) {
    for (const to of NAMES) {
      const texts = received.get(`${from}${to}`) ?? [];
      expect(texts).toHaveLength(cut?.channels.sent.get(to)?.count ?? 0);
      const numbers = texts.map((text) => Number(text.slice(2)));
      expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b));
      expect(texts.every((text) => text.startsWith(`${from}${to}`))).toBe(true);
    }
  }
}

const RUNS = drawn(20_000);
const happenings = fc.array(happening, { maxLength: 120 });

test('[group.5] members that are cut one after the other, and send nothing meanwhile, lose and repeat no message', () => {
  fc.assert(
    fc.property(happenings, (all) => {
      const members = live(all, { isStrict: true });
      expectEachOnce(members, restore(members));
    }),
    RUNS,
  );
});

test('[group.5] members that go on sending during a cut lose and repeat no message either: the cut is refused, or right', () => {
  let refused = 0;
  fc.assert(
    fc.property(happenings, (all) => {
      const members = live(all, { isStrict: false });
      let received: Map<string, readonly string[]>;
      try {
        received = restore(members);
      } catch (error) {
        if (!hasErrorCode(error, 'CONFLICT')) throw error;
        refused++;
        return;
      }
      expectEachOnce(members, received);
    }),
    RUNS,
  );
  expect(refused).toBeGreaterThan(0);
});
