import {
  accepts,
  anything,
  callback,
  checkOptions,
  date,
  filledString,
  flag,
  having,
  isRecord,
  listOf,
  type OptionCheck,
  type OptionChecks,
  oneOf,
  positive,
  record,
  signal,
  string,
  wholeFrom,
} from '../core/options.ts';
import type { ChangeOptions, MemoryChange } from './edit/editing.ts';
import type { SearchOptions, SelectOptions } from './find/finding.ts';
import type { RenderOptions } from './find/rendering.ts';
import type { AddOptions } from './learn/proposal.ts';
import type { TeacherOptions, ViewOptions } from './log/views.ts';
import type { MemoryOptions, MemoryRewindOptions } from './memory.ts';
import { MEMORY_KINDS, type MemoryScope } from './storage/memory-record.ts';

const share = accepts('a number from 0 to 1', (value) => typeof value === 'number' && value >= 0 && value <= 1);
const place = accepts(
  'a session, or { id, branch }',
  (value) => isRecord(value) && typeof value.id === 'string' && typeof value.branch === 'string',
);
const moment: OptionCheck = (value) => (typeof value === 'string' ? undefined : date(value));

// Names are checked where they are used, with what they are.
const SCOPE: OptionChecks<MemoryScope> = { userId: anything, agentId: anything, runId: anything };
const VIEW: OptionChecks<ViewOptions> = { session: place, asOf: moment };
const TEACHER: OptionChecks<TeacherOptions> = { checkpoint: filledString, session: place };
const WHY = { actor: string, reason: string };

const SELECT: OptionChecks<SelectOptions> = {
  ...SCOPE,
  ...VIEW,
  filters: record,
  kinds: listOf(oneOf(...MEMORY_KINDS)),
  showExpired: flag,
};

const FIELDS = { metadata: record, expirationDate: date, isPinned: flag, confidence: share };

const CHANGE: OptionChecks<MemoryChange> = {
  ...FIELDS,
  memory: string,
  content: { renamedTo: 'memory' },
  text: { renamedTo: 'memory' },
};

const CHANGED_BY: OptionChecks<ChangeOptions> = { ...TEACHER, ...WHY, expectedVersion: wholeFrom(0) };

const CHECKS = {
  'new Memory()': {
    path: filledString,
    storage: having('append', 'readEvents'),
    manager: having('session', 'rewind'),
    embedder: having('embed'),
    extractor: having('extract'),
    now: callback,
  } satisfies OptionChecks<MemoryOptions>,
  'add()': {
    ...SCOPE,
    ...TEACHER,
    ...FIELDS,
    ...WHY,
    infer: flag,
    kind: oneOf(...MEMORY_KINDS),
    subject: string,
    slot: string,
    trust: oneOf('user', 'agent', 'external'),
    observedAt: date,
    validFrom: date,
    idempotencyKey: string,
    signal,
  } satisfies OptionChecks<AddOptions>,
  'getAll()': SELECT,
  'search()': {
    ...SELECT,
    topK: wholeFrom(1, 1000),
    threshold: accepts('a number', (value) => typeof value === 'number' && !Number.isNaN(value)),
    explain: flag,
    signal,
  } satisfies OptionChecks<SearchOptions>,
  'render()': {
    ...VIEW,
    scope: record,
    query: string,
    said: listOf(string),
    budgetTokens: positive,
    countTokens: callback,
    signal,
  } satisfies OptionChecks<RenderOptions>,
  'the change of update()': CHANGE,
  'update()': CHANGED_BY,
  'delete()': CHANGED_BY,
  'deleteAll()': { ...SCOPE, ...TEACHER, ...WHY },
  'get()': VIEW,
  'history()': VIEW,
  'why()': VIEW,
  'promote()': { ...VIEW, ...WHY },
  'purge()': { reason: string },
  'rewind()': {
    memory: oneOf('follow', 'keep'),
    branch: anything,
    reason: anything,
    author: anything,
    edit: anything,
  } as OptionChecks<MemoryRewindOptions>,
} as const;

/** Accepts the options of a call on a memory or throws; left out, they are empty. */
export function checkMemoryOptions<Options extends object>(
  options: Options | undefined,
  of: keyof typeof CHECKS,
): Options {
  const given = options ?? ({} as Options);
  checkOptions(given, CHECKS[of], of);
  return given;
}
