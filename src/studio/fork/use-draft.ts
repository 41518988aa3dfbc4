import { startTransition, useCallback, useEffect, useMemo, useState } from 'react';

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
  /** As it is drawn: a key may be missing that was pressed just now. */
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
  // A key is the browser's own work; what follows from it is drawn when there is time.
  const change = useCallback<Draft['change']>(
    (to) => {
      const edit = to(drafts.get(key) ?? UNCHANGED);
      if (isEdited(edit)) drafts.set(key, edit);
      else drafts.delete(key);
      startTransition(() => redraw((n) => n + 1));
    },
    [key],
  );
  useEffect(() => {
    addEventListener('beforeunload', holdBack);
    return () => removeEventListener('beforeunload', holdBack);
  }, []);
  const edit = read();
  return useMemo(() => ({ edit, read, change }), [edit, read, change]);
}

/** Whether anything is to be changed. */
export function isEdited({ set, text }: Edit): boolean {
  return set !== undefined || text !== undefined;
}

/** The browser asks before it throws away what was typed. */
function holdBack(event: Event): void {
  if (drafts.size > 0) event.preventDefault();
}
