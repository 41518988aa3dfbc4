import { Command, Overwrite, Send } from '@langchain/langgraph';
import { DeltaSnapshot } from '@langchain/langgraph-checkpoint';
import { withoutUndefined } from '../../../core/defined.ts';
import type { ClassCodec } from '../../../core/value/class-codec.ts';

type SendData = { readonly node: string; readonly args: unknown; readonly timeout?: Send['timeout'] };
type CommandData = Pick<Command, 'graph' | 'update' | 'resume' | 'goto'>;

/** LangGraph's classes carry their name, so that other copies of the package know them. A subclass is one class further from `Object`. */
function isNamed(name: string, classes = 1): (instance: object) => boolean {
  return (instance) => 'lg_name' in instance && instance.lg_name === name && countClasses(instance) === classes;
}

function countClasses(instance: object): number {
  let count = -1;
  for (let at: object | null = Object.getPrototypeOf(instance); at !== null; at = Object.getPrototypeOf(at)) count++;
  return count;
}

const sendCodec: ClassCodec<Send> = {
  tag: 'langgraph.Send',
  class: Send,
  recognises: isNamed('Send'),
  encode: ({ node, args, timeout }): SendData => ({ node, args, ...(timeout !== undefined && { timeout }) }),
  decode(data) {
    const { node, args, timeout } = data as SendData;
    const send = new Send(node, undefined, timeout === undefined ? undefined : { timeout });
    Object.assign(send, { args }); // the constructor takes data that looks like a Send or Command for one
    return send;
  },
};

const commandCodec: ClassCodec<Command> = {
  tag: 'langgraph.Command',
  class: Command,
  recognises: isNamed('Command', 2),
  encode: ({ graph, update, resume, goto }): CommandData => withoutUndefined({ graph, update, resume, goto }),
  decode: (data) => new Command(data as CommandData),
};

const overwriteCodec: ClassCodec<Overwrite> = {
  tag: 'langgraph.Overwrite',
  class: Overwrite,
  recognises: isNamed('Overwrite'),
  encode: ({ value }) => value,
  decode: (data) => new Overwrite(data),
};

/** How snapshots of delta channels are called where they are stored. */
export const DELTA_SNAPSHOT_TAG = 'langgraph.DeltaSnapshot';

const deltaSnapshotCodec: ClassCodec<DeltaSnapshot> = {
  tag: DELTA_SNAPSHOT_TAG,
  class: DeltaSnapshot,
  recognises: isNamed('DeltaSnapshot'),
  encode: ({ value }) => value,
  decode: (data) => new DeltaSnapshot(data),
};

/** Codecs for the values that LangGraph itself puts into channels and writes. */
export const graphCodecs = [
  sendCodec,
  commandCodec,
  overwriteCodec,
  deltaSnapshotCodec,
] as unknown as readonly ClassCodec[];
