import { Document } from '@langchain/core/documents';
import {
  AIMessage,
  AIMessageChunk,
  type BaseMessage,
  ChatMessage,
  ChatMessageChunk,
  FunctionMessage,
  FunctionMessageChunk,
  HumanMessage,
  HumanMessageChunk,
  RemoveMessage,
  SystemMessage,
  SystemMessageChunk,
  ToolMessage,
  ToolMessageChunk,
} from '@langchain/core/messages';
import type { ClassCodec } from '../../../core/value/class-codec.ts';

type Fields = { [key: string]: unknown };

/** What every class of messages can be made from: the rest of the fields is set afterwards. */
type MessageClass = new (fields: { content: [] }) => BaseMessage;

/** Marks messages of all copies of the package. */
const MESSAGE = Symbol.for('langchain.message');

/** Arguments that no field of the message holds; LangChain keeps them only among `lc_kwargs`. */
const EXTRA = 'lc_kwargs';

/** Fields that repeat others, or the class. Nothing adds arguments to a message that is there, so they are not compared either. */
const REPEATED: readonly string[] = ['lc_kwargs', 'lc_namespace'];

const MESSAGES = {
  AIMessage,
  AIMessageChunk,
  ChatMessage,
  ChatMessageChunk,
  FunctionMessage,
  FunctionMessageChunk,
  HumanMessage,
  HumanMessageChunk,
  RemoveMessage,
  SystemMessage,
  SystemMessageChunk,
  ToolMessage,
  ToolMessageChunk,
} as unknown as { readonly [name: string]: MessageClass };

/** Saves messages by their fields. */
function messageCodec([name, Class]: [name: string, Class: MessageClass]): ClassCodec {
  const blank = new Class({ content: [] });
  const usual = new UsualFields(blank);
  return {
    tag: `langchain.${name}`,
    class: Class,
    recognises: (instance) => MESSAGE in instance && classNameOf(instance) === name,
    encode: (message) => encodeMessage(message as BaseMessage, usual),
    readsOnlyFields: { except: REPEATED },
    decode: createDecoder(blank),
  };
}

/** The fields a class sets by itself, with their values. Instances have them in the same order, so that nearly always the place tells. */
class UsualFields {
  readonly #names: readonly string[];
  readonly #values: readonly unknown[];

  constructor(blank: BaseMessage) {
    this.#names = Object.keys(blank);
    this.#values = Object.values(blank);
  }

  /** Whether a field says nothing about this message. */
  has(place: number, key: string, value: unknown): boolean {
    const at = this.#names[place] === key ? place : this.#names.indexOf(key);
    return (at >= 0 && value === this.#values[at]) || REPEATED.includes(key);
  }
}

/** Every field that the class does not set by itself, in the order of its JSON: that of the arguments it was made from. */
function encodeMessage(message: BaseMessage, usual: UsualFields): Fields {
  const fields: Fields = {};
  for (const key in message.lc_kwargs) {
    const value = fieldsOf(message)[key];
    if (Object.hasOwn(message, key) && !usual.has(-1, key, value)) fields[key] = value;
  }
  let place = 0;
  for (const key in message) {
    const value = fieldsOf(message)[key];
    if (!usual.has(place++, key, value)) fields[key] = value;
  }
  if (hasExtra(message)) fields[EXTRA] = extraOf(message);
  return fields;
}

/**
 * Builds messages from a blank one. The constructors are left out: they parse, warn about and rewrite what they are given, and take
 * ten times as long as everything else about reading a message.
 */
function createDecoder(blank: BaseMessage): (data: unknown) => BaseMessage {
  const prototype: object = Object.getPrototypeOf(blank);
  const { lc_namespace: namespace } = blank;
  // Its own objects must not get into two messages; whatever message has one there, has it among its fields.
  const names = Object.keys(blank).filter((key) => typeof fieldsOf(blank)[key] === 'object');
  const template = { ...blank, ...Object.fromEntries(names.map((key) => [key, undefined])) };
  return (data) => {
    const fields = data as Fields;
    const { [EXTRA]: extra } = fields;
    const message = { ...template, ...fields } as unknown as BaseMessage;
    Object.setPrototypeOf(message, prototype);
    message.lc_namespace = [...namespace];
    message.lc_kwargs = extra === undefined ? fields : spreadExtra(fields, extra as Fields);
    return message;
  };
}

function spreadExtra(data: Fields, extra: Fields): Fields {
  const { [EXTRA]: _, ...fields } = data;
  return { ...fields, ...extra };
}

function hasExtra(message: BaseMessage): boolean {
  for (const key in message.lc_kwargs) if (!(key in message)) return true;
  return false;
}

function extraOf(message: BaseMessage): Fields {
  return Object.fromEntries(Object.entries(message.lc_kwargs).filter(([key]) => !(key in message)));
}

function fieldsOf(message: BaseMessage): Fields {
  return message as unknown as Fields;
}

/** The name a class gives itself, which minifiers leave alone; undefined for a class that only inherits one. */
function classNameOf(instance: object): string | undefined {
  const { constructor: Class } = instance as { constructor: { name: string; lc_name?: () => string } };
  if (Object.hasOwn(Class, 'lc_name')) return Class.lc_name?.();
  return Class.name === 'RemoveMessage' ? Class.name : undefined;
}

const documentCodec: ClassCodec<Document> = {
  tag: 'langchain.Document',
  class: Document,
  readsOnlyFields: { except: [] },
  recognises: (instance) => instance.constructor.name === 'Document' && Object.keys(instance).every(isDocumentKey),
  encode: ({ pageContent, metadata, id }) => ({ pageContent, metadata, ...(id !== undefined && { id }) }),
  decode: (data) => new Document(data as { pageContent: string; metadata: Fields; id?: string }),
};

function isDocumentKey(key: string): boolean {
  return key === 'pageContent' || key === 'metadata' || key === 'id';
}

/** Codecs for the messages and documents of LangChain. Only these are made live again. */
export const messageCodecs: readonly ClassCodec[] = [
  ...Object.entries(MESSAGES).map(messageCodec),
  documentCodec as unknown as ClassCodec,
];
