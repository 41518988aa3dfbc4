import { type ChannelVersions, type Checkpoint, type CheckpointMetadata, TASKS } from '@langchain/langgraph-checkpoint';
import { type EncodedState, encodedKeys, encodedPart } from '../../../core/codec/state-codec.ts';
import { setField } from '../../../core/defined.ts';

/** LangGraph's checkpoint without its id, which is in the header. */
export type GraphState = Omit<Checkpoint, 'id'>;

/** A call of `put`. */
export type PutCall = {
  readonly checkpoint: Checkpoint;
  readonly metadata: CheckpointMetadata;
  readonly newVersions: ChannelVersions;
};

const VALUES = 'channel_values';
const VERSIONS = 'channel_versions';

/** The state to save of a checkpoint without a parent: the channels that are new, which for a copy are all it has. */
export function rootState({ checkpoint, metadata, newVersions }: PutCall): GraphState {
  const given = Object.entries(checkpoint.channel_values);
  const values = metadata.source === 'fork' ? given : given.filter(([name]) => Object.hasOwn(newVersions, name));
  return withValues(checkpoint, Object.fromEntries(values));
}

/** The state to save of a checkpoint whose parent is not stored: all that was given, because nothing can be inherited. */
export function wholeState({ checkpoint }: PutCall): GraphState {
  return withValues(checkpoint, checkpoint.channel_values);
}

/**
 * The state to save on top of a parent. A channel with a new version has the value that came with it, or none: then it is empty now.
 * One without keeps what it had in the parent, if that is the version it is at: as it is given now, because nodes also change values
 * in place without writing to their channel. One that never had a version has what was given: a step that failed in part is applied
 * without counting on.
 */
export function childState(given: GraphState, newVersions: ChannelVersions, parent: EncodedState): GraphState {
  const { channel_values: values, channel_versions: versions } = given;
  const state: { [name: string]: unknown } = {};
  const find = (name: string) => {
    const version = givenPart(versions, name)?.part;
    const isSameVersion = encodedPart(parent, [VERSIONS, name])?.part === version;
    if (Object.hasOwn(newVersions, name) || !isSameVersion) return givenPart(values, name);
    const before = encodedPart(parent, [VALUES, name]);
    const now = givenPart(values, name);
    if (before === undefined && (version !== undefined || isNoSends(name, now?.part))) return undefined;
    return now ?? before;
  };
  const before = encodedKeys(parent, [VALUES]);
  for (const name of [...before, ...Object.keys(values).filter((key) => !before.includes(key))]) {
    const found = find(name);
    if (found !== undefined) setField(state, name, found.part);
  }
  return { ...given, channel_values: state };
}

/** A state that was encoded already, to be used in another: whatever became of the live one. */
export function encodedState(encoded: EncodedState): GraphState {
  return {
    ...encodedFields(encoded, []),
    [VALUES]: encodedFields(encoded, [VALUES]),
    [VERSIONS]: encodedFields(encoded, [VERSIONS]),
  } as GraphState;
}

function encodedFields(encoded: EncodedState, path: readonly string[]): { [key: string]: unknown } {
  const keys = encodedKeys(encoded, path);
  return Object.fromEntries(keys.map((key) => [key, encodedPart(encoded, [...path, key])?.part]));
}

/** LangGraph has this channel in every state; without sends it says nothing. */
function isNoSends(name: string, value: unknown): boolean {
  return name === TASKS && Array.isArray(value) && value.length === 0;
}

function givenPart(given: { readonly [name: string]: unknown }, name: string): { readonly part: unknown } | undefined {
  return Object.hasOwn(given, name) ? { part: given[name] } : undefined;
}

function withValues(checkpoint: Checkpoint, values: { [name: string]: unknown }): GraphState {
  const { id: _, ...state } = checkpoint;
  return { ...state, channel_values: values };
}
