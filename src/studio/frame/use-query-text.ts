import { useEffect, useState } from 'react';
import { useRested } from '../data/use-rested.ts';
import { setQuery } from './place.ts';

/** What somebody types into a field. */
export type QueryText = { readonly text: string; readonly rested: string; readonly setText: (text: string) => void };

/** A field whose text is in the address: at once on the screen (`text`), when the typing rests in the address (`rested`). */
export function useQueryText(query: URLSearchParams, name: string): QueryText {
  const [text, setText] = useState(query.get(name) ?? '');
  const rested = useRested(text);
  useEffect(() => {
    if ((new URLSearchParams(location.search).get(name) ?? '') !== rested)
      setQuery({ [name]: rested === '' ? undefined : rested }, { replace: true });
  }, [name, rested]);
  return { text, rested, setText };
}
