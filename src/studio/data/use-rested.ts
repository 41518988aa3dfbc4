import { useEffect, useState } from 'react';

/** Whoever types is not asked about every letter. */
export const REST_MS = 200;

/** A value as it was when it last stayed the same for a moment: for what costs a request. */
export function useRested<Value>(value: Value): Value {
  const [rested, setRested] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setRested(() => value), REST_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return rested;
}
