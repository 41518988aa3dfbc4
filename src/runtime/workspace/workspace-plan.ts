/** What a restore does to one path. `change` is of content, target or kind, and of permissions with it; `chmod` of permissions alone. */
export type WorkspaceAction = 'create' | 'change' | 'delete' | 'chmod';

/** One thing that a restore would do. */
export type PlannedChange = {
  readonly path: string;
  readonly action: WorkspaceAction;
  /** What will be there; for `delete`, what is there. */
  readonly kind: 'file' | 'link' | 'folder';
  /** What is there, where that is another kind. */
  readonly kindBefore?: 'file' | 'link' | 'folder';
  /** Of a file: what it will have. */
  readonly sizeBytes?: number;
  /** Of a file: what it has. */
  readonly sizeBeforeBytes?: number;
  readonly mode?: number;
  readonly modeBefore?: number;
};

/** A path that differs from the state and stays as it is, and why. */
export type LeftPath = { readonly path: string; readonly reason: LeftReason; readonly note: string };

/** Why a path stays as it is. */
export type LeftReason =
  | 'content-not-captured'
  | 'content-redacted'
  | 'link-leads-outside'
  | 'ignored'
  | 'in-the-way'
  | 'reserved-name'
  | 'case-clash'
  | 'special'
  | 'unreadable';

/** What is put in place of a path. */
export type PlannedContent =
  | { readonly kind: 'file'; readonly content: string | Uint8Array; readonly mode: number }
  | { readonly kind: 'link'; readonly target: string }
  | { readonly kind: 'folder'; readonly mode: number };

/** What a restore would do. Making it changes nothing. */
export type WorkspacePlan = {
  /** The folder, with all links on the way to it resolved. */
  readonly folder: string;
  /** In the order of their paths. */
  readonly changes: readonly PlannedChange[];
  /** What the state has and the folder will not have, and what would have been deleted and is not. */
  readonly left: readonly LeftPath[];
  readonly unchangedCount: number;
  /** What `applyRestore` puts in place, by path. */
  readonly contents: ReadonlyMap<string, PlannedContent>;
  /** What was seen at each path, so that a change since then is noticed; `root` is that of the folder itself, absent if there is none. */
  readonly seen: ReadonlyMap<string, string>;
  readonly root?: string;
  /** The lists of patterns by which the folder was looked at. */
  readonly ignored: readonly (readonly string[])[];
};

/** One planned change that failed. */
export type FailedChange = { readonly path: string; readonly action: WorkspaceAction; readonly problem: string };

/** What a restore did. `complete` only if the folder is now what was captured. */
export type WorkspaceReport = {
  readonly status: 'complete' | 'partial';
  readonly done: readonly PlannedChange[];
  readonly failed: readonly FailedChange[];
  readonly left: readonly LeftPath[];
};
