import { startTransition, useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { REST_MS } from '../data/use-rested.ts';

/** What is to be changed on the way into the branch: the whole state as JSON, or single values by path. */
export type Edit = {
  readonly state?: unknown;
  /** The JSON as it was typed, also where it does not parse. */
  readonly text?: string;
  readonly set?: Readonly<Record<string, string>>;
  readonly problem?: string;
};

/** How it is edited. */
export type EditForm = 'messages' | 'json';

/** An edit that is not forked yet. */
export type Draft = {
  /** As it is drawn: what was typed since the last rest may be missing. */
  readonly edit: Edit;
  /** As it is. */
  readonly read: () => Edit;
  readonly change: (to: (edit: Edit) => Edit) => void;
};

const UNCHANGED: Edit = {};

/** What was typed and not forked, by checkpoint and form: neither another step, nor the other form, nor another screen takes it away. */
const drafts = new Map<string, Edit>();

/** The edit of a checkpoint. */
export function useDraft(id: string | undefined, form: EditForm): Draft {
  const [, redraw] = useState(0);
  const key = `${id} ${form}`;
  const read = useCallback(() => drafts.get(key) ?? UNCHANGED, [key]);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  // A key is the browser's own work: what follows from it is drawn when the typing rests.
  const change = useCallback<Draft['change']>(
    (to) => {
      const before = read();
      const edit = to(before);
      if (isEdited(edit)) drafts.set(key, edit);
      else drafts.delete(key);
      clearTimeout(timer.current);
      timer.current = setTimeout(
        () => startTransition(() => redraw((n) => n + 1)),
        isOneMoreKey(before, edit) ? REST_MS : 0,
      );
    },
    [key, read],
  );
  useEffect(() => {
    addEventListener('beforeunload', holdBack);
    return () => {
      clearTimeout(timer.current);
      removeEventListener('beforeunload', holdBack);
    };
  }, []);
  const edit = read();
  return useMemo(() => ({ edit, read, change }), [edit, read, change]);
}

/** Whether anything is to be changed. */
export function isEdited({ set, text }: Edit): boolean {
  return set !== undefined || text !== undefined;
}

/** Whether the same messages are edited as before; the editor of JSON rests by itself. */
function isOneMoreKey(before: Edit, { set }: Edit): boolean {
  return set !== undefined && Object.keys(set).length === Object.keys(before.set ?? {}).length;
}

/** The browser asks before it throws away what was typed. */
function holdBack(event: Event): void {
  if (drafts.size > 0) event.preventDefault();
}
