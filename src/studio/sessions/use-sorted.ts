import { useEffect, useMemo, useState } from 'react';
import { ask } from '../data/server.ts';
import { setQuery } from '../frame/place.ts';
import { COLUMNS, type Figures, type ListedSession } from './columns.tsx';

/** Figures of more sessions than these are not measured at once. */
export const MOST_MEASURED = 200;
const AT_ONCE = 4;
/** Longer histories are read for drift on their own page, when somebody asks. */
export const UNASKED_CHECKPOINTS = 500;

/** How a list is sorted. */
export type Sorting = {
  readonly column: string;
  readonly isDescending: boolean;
  /** How many sessions are still to be measured before the order is known. */
  readonly left: number;
  readonly sortBy: (column: string) => void;
};

/** The sessions in the order that the address asks for (`sort=-size`); the newest first if it asks for none. */
export function useSorted(sessions: readonly ListedSession[], query: URLSearchParams) {
  const asked = query.get('sort') ?? '-activity';
  const isDescending = asked.startsWith('-');
  const column = COLUMNS.find(({ id }) => id === asked.replace('-', '')) ?? COLUMNS[0];
  const measured = useFigures(sessions, column?.measure !== undefined && sessions.length <= MOST_MEASURED);
  const { rank, measure } = column ?? {};
  const sorted = useMemo(() => {
    const rankOf = (session: ListedSession) => {
      const figures = measured.get(keyOf(session));
      return measure === undefined ? (rank?.(session) ?? 0) : figures === undefined ? 0 : measure(figures);
    };
    const isKnown = measure === undefined || sessions.every((session) => measured.has(keyOf(session)));
    if (!isKnown) return sessions;
    const sign = isDescending ? -1 : 1;
    return sessions.toSorted((a, b) => sign * compare(rankOf(a), rankOf(b)));
  }, [sessions, measured, rank, measure, isDescending]);
  const left = measure === undefined ? 0 : sessions.filter((session) => !measured.has(keyOf(session))).length;
  const sortBy = (id: string) => {
    const isSame = id === column?.id;
    const isDown = isSame ? !isDescending : COLUMNS.find((each) => each.id === id)?.isNumber === true;
    setQuery({ sort: isDown ? `-${id}` : id }, { replace: true });
  };
  return { sorted, sorting: { column: column?.id ?? '', isDescending, left, sortBy } satisfies Sorting };
}

function compare(a: string | number, b: string | number): number {
  return typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
}

/** Another save makes other figures. */
function keyOf({ id, headId }: ListedSession): string {
  return `${id} ${headId}`;
}

/** The figures of all these sessions. */
export function useFigures(sessions: readonly ListedSession[], isWanted: boolean): ReadonlyMap<string, Figures> {
  return useEach(sessions, isWanted, readFigures);
}

const readFigures = ({ id }: ListedSession) => ask('GET /v1/sessions/{session}/figures', { params: { session: id } });

/** The ids of those that drift, by their histories; of more sessions than are measured at once, or longer histories, nobody asks. */
export function useDrifting(sessions: readonly ListedSession[]): ReadonlySet<string> {
  const short = sessions.filter(({ sequence }) => sequence > 0 && sequence <= UNASKED_CHECKPOINTS);
  const known = useEach(short, sessions.length <= MOST_MEASURED, readDrift);
  return new Set(short.filter((session) => known.get(keyOf(session))?.status === 'drifting').map(({ id }) => id));
}

const readDrift = ({ headId = '' }: ListedSession) =>
  ask('GET /v1/checkpoints/{checkpoint}/drift', { params: { checkpoint: headId } });

/** What there is to know of each of these sessions, a few at a time; of those that cannot be read there is nothing. */
function useEach<Value>(
  sessions: readonly ListedSession[],
  isWanted: boolean,
  read: (session: ListedSession) => Promise<Value>,
): ReadonlyMap<string, Value> {
  const [known, setKnown] = useState<ReadonlyMap<string, Value>>(new Map());
  const missing = isWanted ? sessions.filter((session) => !known.has(keyOf(session))) : [];
  const wanted = missing.map(keyOf).join('\n');
  // biome-ignore lint/correctness/useExhaustiveDependencies: their keys stand for the sessions
  useEffect(() => {
    let isOver = false;
    const queue = [...missing];
    const found = new Map<string, Value>();
    const work = async () => {
      for (let session = queue.shift(); session !== undefined && !isOver; session = queue.shift()) {
        const value = await read(session).catch(() => undefined);
        if (value !== undefined) found.set(keyOf(session), value);
      }
    };
    if (wanted !== '')
      void Promise.all(Array.from({ length: AT_ONCE }, work)).then(
        () => isOver || setKnown((before) => new Map([...before, ...found])),
      );
    return () => {
      isOver = true;
    };
  }, [wanted]);
  return known;
}

/** What these sessions take together, as far as it is known. */
export function sizeOf(sessions: readonly ListedSession[], figures: ReadonlyMap<string, Figures>) {
  const known = sessions.flatMap((session) => figures.get(keyOf(session)) ?? []);
  const sum = (field: 'uniqueBytes' | 'logicalBytes' | 'checkpoints') =>
    known.reduce((all, each) => all + each[field], 0);
  return { checkpoints: sum('checkpoints'), uniqueBytes: sum('uniqueBytes'), logicalBytes: sum('logicalBytes') };
}
