/** One change of a state that an older version recorded with a step. */
type StateChange = {
  readonly op: 'add' | 'replace' | 'remove';
  readonly path: readonly (string | number)[];
  readonly value?: unknown;
};

/** A step as older versions recorded it if it had changed the state: steps could do that. */
type StepRecord = { readonly 'savestate:changes': readonly StateChange[]; readonly result: unknown };

const CHANGES = 'savestate:changes';

/** What to record of a step: its result. One that looks like an old record is put into one. */
export function formatStepRecord(result: unknown): unknown {
  return isRecord(result) ? { [CHANGES]: [], result } : result;
}

/** Reads what was recorded; changes that an older version recorded are made in the state again. */
export function readStepRecord(recorded: unknown, state: object): unknown {
  if (!isRecord(recorded)) return recorded;
  for (const change of recorded[CHANGES]) redo(state, change);
  return recorded.result;
}

function redo(state: object, { op, path, value }: StateChange): void {
  const key = path.at(-1);
  const holder = path.slice(0, -1).reduce<unknown>((part, name) => (isObject(part) ? part[name] : undefined), state);
  if (key === undefined || !isObject(holder)) return;
  if (op === 'remove') Reflect.deleteProperty(holder, key);
  else if (Array.isArray(holder) && op === 'add') holder.push(structuredClone(value));
  else Reflect.set(holder, key, structuredClone(value));
}

function isObject(value: unknown): value is { readonly [key: string | number]: unknown } {
  return typeof value === 'object' && value !== null;
}

function isRecord(value: unknown): value is StepRecord {
  return isObject(value) && Object.hasOwn(value, CHANGES);
}
