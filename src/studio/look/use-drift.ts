import { useEffect, useMemo, useState } from 'react';
import type { Asked, Reply } from '../data/server.ts';
import { FLAG, type TimelineView } from '../data/timeline.ts';
import { useReplyIf } from '../data/use-reply.ts';
import type { Selection } from './use-selection.ts';

/** Signs of drift over a history. */
export type Drift = Reply<'GET /v1/checkpoints/{checkpoint}/drift'>;

/** What is known of drift on the branch that is looked at. */
export type DriftView = {
  readonly asked: Asked<Drift>;
  /** The id of the checkpoint with which it began. */
  readonly firstBad: string | undefined;
  /** The checkpoints at which the agent drifts: as the history says, or as they were noted when they were saved. */
  readonly drifting: ReadonlySet<number>;
  /** Whether the history is so long that somebody has to ask for it. */
  readonly isTooLong: boolean;
  readonly ask: () => void;
};

/** Longer histories are read for drift when somebody asks. */
const UNASKED_CHECKPOINTS = 2_000;
/** While saves stream in, the charts stand still for so long. */
const CALM_MS = 5_000;

/** Signs of drift up to the newest checkpoint of the branch. */
export function useDrift({ timeline, version, isLoading }: TimelineView, { branch }: Selection): DriftView {
  const [isAsked, setAsked] = useState(false);
  const isTooLong = timeline.length > UNASKED_CHECKPOINTS && !isAsked;
  const tip = useCalm(timeline.ids[timeline.tipOf(branch)]);
  const isWanted = tip !== undefined && !isTooLong && !isLoading;
  const asked = useReplyIf(
    'GET /v1/checkpoints/{checkpoint}/drift',
    isWanted ? { params: { checkpoint: tip } } : undefined,
  );
  const { status, onset, firstAlarm } = asked.value ?? {};
  const firstBad = status === 'healthy' ? undefined : (onset ?? firstAlarm);
  const points = asked.value?.points;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the timeline grows in place, its version tells
  const drifting = useMemo(() => {
    const noted = timeline.flags.flatMap((flags, at) => ((flags & FLAG.drifting) !== 0 ? [at] : []));
    const found = (points ?? []).filter((point) => point.status === 'drifting');
    return new Set([...noted, ...found.map(({ checkpointId }) => timeline.find(checkpointId))]);
  }, [timeline, version, points]);
  return { asked, firstBad, drifting, isTooLong: isTooLong && !isLoading, ask: () => setAsked(true) };
}

/** The value, but not more often than every few seconds. */
function useCalm<Value>(value: Value): Value {
  const [calm, setCalm] = useState({ value, atMs: 0 });
  useEffect(() => {
    if (value === calm.value) return undefined;
    const timer = setTimeout(() => setCalm({ value, atMs: Date.now() }), Math.max(0, calm.atMs + CALM_MS - Date.now()));
    return () => clearTimeout(timer);
  }, [value, calm]);
  return calm.value;
}
