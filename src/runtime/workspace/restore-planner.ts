import type { IgnoreList } from './ignore-list.ts';
import { type FolderSurvey, modeOf, type SurveyedPath } from './scan-folder.ts';
import { ancestorsOf, comparePaths, findReservedName, foldCase, staysInside } from './workspace-path.ts';
import type { LeftPath, LeftReason, PlannedChange, PlannedContent, WorkspacePlan } from './workspace-plan.ts';
import { type CheckedEntry, type CheckedState, digestContent } from './workspace-state.ts';

/** What a plan is made from. */
export type PlannerInput = {
  readonly state: CheckedState;
  readonly survey: FolderSurvey;
  /** Of the files that were read. */
  readonly digests: ReadonlyMap<string, string>;
  readonly ignore: IgnoreList;
  readonly isCaseIgnored: boolean;
  readonly platform?: NodeJS.Platform;
};

type Refusal = { readonly reason: LeftReason; readonly note: string };

/** Compares a state with what a folder holds. Pure: it looks at nothing itself. */
export class RestorePlanner {
  readonly #input: PlannerInput;
  readonly #platform: NodeJS.Platform;
  readonly #changes: PlannedChange[] = [];
  readonly #left: LeftPath[] = [];
  readonly #contents = new Map<string, PlannedContent>();
  /** Paths of the state that stay as they are, and with them all below. */
  readonly #blocked = new Set<string>();
  /** Paths of the folder that stay though the state does not have them, and the folders above them. */
  readonly #held = new Set<string>();
  readonly #folded = new Map<string, string>();
  #unchangedCount = 0;

  constructor(input: PlannerInput) {
    this.#input = input;
    this.#platform = input.platform ?? process.platform;
  }

  plan(): Pick<WorkspacePlan, 'changes' | 'left' | 'contents' | 'unchangedCount'> {
    this.#holdWhatStays();
    const paths = [...this.#input.state.entries.keys()].sort(comparePaths);
    for (const path of paths) this.#planEntry(path, this.#input.state.entries.get(path) as CheckedEntry);
    this.#planDeletes();
    return {
      changes: this.#changes.sort((a, b) => comparePaths(a.path, b.path)),
      left: this.#left.sort((a, b) => comparePaths(a.path, b.path)),
      contents: this.#contents,
      unchangedCount: this.#unchangedCount,
    };
  }

  #holdWhatStays(): void {
    const { survey, state } = this.#input;
    const skipped = new Set(state.skipped);
    if (skipped.has('.'))
      this.#left.push({
        path: '.',
        reason: 'content-not-captured',
        note: 'The folder was not captured, or not as a whole. What else it holds stays as it is.',
      });
    for (const path of [...survey.ignored, ...survey.unreadable]) this.#hold(path);
    for (const [path, { kind }] of survey.paths) {
      if (state.entries.has(path)) continue;
      const isSkipped = skipped.has('.') || skipped.has(path) || ancestorsOf(path).some((above) => skipped.has(above));
      if (isSkipped) this.#hold(path);
      else if (kind === 'special') this.#leave(path, { reason: 'special', note: 'It is no file, folder or link.' });
    }
  }

  #hold(path: string): void {
    this.#held.add(path);
    for (const above of ancestorsOf(path)) this.#held.add(above);
  }

  #leave(path: string, refusal: Refusal): void {
    this.#left.push({ path, ...refusal });
    this.#blocked.add(path);
    this.#hold(path);
  }

  #planEntry(path: string, entry: CheckedEntry): void {
    const { survey, digests } = this.#input;
    const present = survey.paths.get(path);
    const refusal = this.#refuseByName(path, entry) ?? this.#refuseByPlace(path, entry, present);
    if (refusal !== undefined) this.#leave(path, refusal);
    else if (present?.kind !== entry.kind) this.#planContent(path, entry, present);
    else if (entry.kind !== 'folder' && digests.get(path) !== entry.digest) this.#planContent(path, entry, present);
    else this.#planMode(path, entry, present);
  }

  #refuseByName(path: string, { kind }: CheckedEntry): Refusal | undefined {
    const blocked = ancestorsOf(path).find((above) => this.#blocked.has(above));
    if (blocked !== undefined) return { reason: 'in-the-way', note: `"${blocked}" above it stays as it is.` };
    if (this.#input.ignore.ignoresWithin(path, kind === 'folder'))
      return { reason: 'ignored', note: 'The patterns in force now leave it out.' };
    const reserved = findReservedName(path, this.#platform);
    if (reserved !== undefined) return { reason: 'reserved-name', note: `${reserved}.` };
    const twin = this.#twinOf(path);
    return twin === undefined
      ? undefined
      : { reason: 'case-clash', note: `Here it is the same name as "${twin}", which is put back.` };
  }

  #refuseByPlace(path: string, { kind }: CheckedEntry, present: SurveyedPath | undefined): Refusal | undefined {
    if (this.#input.survey.unreadable.has(path)) return { reason: 'unreadable', note: 'It cannot be looked at.' };
    if (present?.kind === 'special') return { reason: 'special', note: 'Something that is no file is in its place.' };
    const note = 'A folder is in its place that holds what must stay, such as ignored files.';
    const isInTheWay = present?.kind === 'folder' && kind !== 'folder' && this.#held.has(path);
    return isInTheWay ? { reason: 'in-the-way', note } : undefined;
  }

  /** Another path of the state that is the same name in this folder. */
  #twinOf(path: string): string | undefined {
    if (!this.#input.isCaseIgnored) return undefined;
    const folded = foldCase(path);
    const twin = this.#folded.get(folded);
    if (twin === undefined) this.#folded.set(folded, path);
    return twin;
  }

  #planContent(path: string, entry: CheckedEntry, present: SurveyedPath | undefined): void {
    const content = this.#contentOf(path, entry);
    if ('reason' in content) {
      this.#leave(path, content);
      return;
    }
    this.#contents.set(path, content);
    this.#changes.push({
      path,
      action: present === undefined ? 'create' : 'change',
      kind: entry.kind,
      ...(present && describePresent(present, entry)),
      ...(entry.kind === 'file' && { sizeBytes: entry.sizeBytes }),
      ...(entry.kind !== 'link' && { mode: entry.mode }),
    });
  }

  #contentOf(path: string, entry: CheckedEntry): PlannedContent | Refusal {
    if (entry.kind === 'folder') return { kind: 'folder', mode: entry.mode };
    const { digest } = entry;
    if (entry.kind === 'link') {
      const { target } = entry;
      if (typeof target !== 'string' || digestContent(target) !== digest) return REDACTED;
      if (staysInside(path, target, this.#platform)) return { kind: 'link', target };
      return { reason: 'link-leads-outside', note: 'A link is put back only if it stays inside the folder.' };
    }
    const { content, mode } = entry;
    if (content === undefined)
      return { reason: 'content-not-captured', note: 'It was over a limit when it was captured.' };
    const isContent = typeof content === 'string' || content instanceof Uint8Array;
    return isContent && digestContent(content) === digest ? { kind: 'file', content, mode } : REDACTED;
  }

  #planMode(path: string, entry: CheckedEntry, { stats }: SurveyedPath): void {
    const modeBefore = modeOf(stats);
    if (entry.kind === 'link' || entry.mode === modeBefore) {
      this.#unchangedCount++;
      return;
    }
    this.#changes.push({ path, action: 'chmod', kind: entry.kind, mode: entry.mode, modeBefore });
  }

  #planDeletes(): void {
    const { survey, state } = this.#input;
    for (const [path, present] of survey.paths) {
      if (state.entries.has(path) || present.kind === 'special') continue;
      if (this.#isHeld(path)) this.#leaveFolder(path, present);
      else this.#changes.push({ path, action: 'delete', kind: present.kind, ...sizeBefore(present) });
    }
  }

  #isHeld(path: string): boolean {
    if (this.#held.has(path) || ancestorsOf(path).some((above) => this.#blocked.has(above))) return true;
    return this.#input.isCaseIgnored && this.#folded.has(foldCase(path));
  }

  /** A folder that was not there, and stays only for what is in it. */
  #leaveFolder(path: string, { kind }: SurveyedPath): void {
    const isSkipped = this.#input.state.skipped.some(
      (skipped) => skipped === '.' || `${path}/`.startsWith(`${skipped}/`),
    );
    if (kind !== 'folder' || isSkipped) return;
    this.#left.push({ path, reason: 'in-the-way', note: 'It was not there, and holds what must stay.' });
  }
}

const REDACTED: Refusal = {
  reason: 'content-redacted',
  note: 'What is stored is not what was captured: secrets were left out of it, or it was altered.',
};

function describePresent(present: SurveyedPath, entry: CheckedEntry): Partial<PlannedChange> {
  const { kind } = present;
  return {
    ...(kind === entry.kind || kind === 'special' ? {} : { kindBefore: kind }),
    ...(kind === 'link' ? {} : { modeBefore: modeOf(present.stats) }),
    ...sizeBefore(present),
  };
}

function sizeBefore({ kind, stats }: SurveyedPath): { readonly sizeBeforeBytes?: number } {
  return kind === 'file' ? { sizeBeforeBytes: Number(stats.size) } : {};
}
