import type { UIMessage } from 'ai';
import { InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { accepts, checkOptions, checkValue, filledString, isRecord, listOf, orNull } from '../../core/options.ts';
import { parseName, type SessionId } from '../../core/record/id.ts';
import { deleteSession } from '../../manager/retention/forgetting.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { type AdapterStorageOptions, toOptions } from '../adapter-storage.ts';
import { encodePart } from '../session-name.ts';
import { withoutAbsent } from '../transcript/plain.ts';
import type { Transcript } from '../transcript/transcript.ts';
import { isSameItems, type TranscriptEdit, type TranscriptView } from '../transcript/transcript-state.ts';
import { Transcripts } from '../transcript/transcripts.ts';
import { streamSession } from './resumable-streams.ts';

/** A message with the id of the one it follows; null for a first one. */
type Item = UIMessage & { readonly follows: string | null };
type Outline = Pick<Item, 'id' | 'role' | 'follows'>;
type Chat = TranscriptView<Item>;
type Extra = { readonly leaf: string | null } | null;

/** Which of a chat's conversations is wanted. */
export type LoadChatOptions = {
  /** The id of its last message; default: the active leaf. */
  readonly leaf?: string;
};

/** Where messages belong that the chat does not know. */
export type SaveChatOptions = {
  /** The id of the message that the first one follows; null if it begins the chat. Default: the active leaf. */
  readonly after?: string | null;
};

/** Opens the chats of a storage, or of a manager. */
export function chatStore<Message extends UIMessage = UIMessage>(
  storageOrOptions: ChunkStorage | AdapterStorageOptions,
): ChatStore<Message>;
export function chatStore(...given: [ChunkStorage | AdapterStorageOptions]): ChatStore {
  return new ChatStore(toOptions<AdapterStorageOptions>(given, {}, 'chatStore()'));
}

const messageList = listOf(
  accepts(
    'a UI message with parts and an id of at most 200 characters (toUIMessageStream gives ids if it gets originalMessages and generateMessageId)',
    (value) => isRecord(value) && isId(value.id) && Array.isArray(value.parts),
  ),
);

/** Clients choose ids. Longer ones would not be found again: a transcript keeps long fields apart from its items. */
const MAX_ID_CHARS = 200;

function isId(id: unknown): boolean {
  return typeof id === 'string' && id !== '' && id.length <= MAX_ID_CHARS;
}

/**
 * Chats as trees of UI messages: each message follows another, and a message that is answered twice has two that follow it. One leaf is
 * active: the conversation up to it is the one that `load` returns. Every change is a checkpoint of the session `ai-sdk/<chat id>`.
 */
export class ChatStore<Message extends UIMessage = UIMessage> {
  readonly #transcripts: Transcripts<Item>;

  constructor(options: AdapterStorageOptions) {
    this.#transcripts = Transcripts.of(options, 'ai-sdk');
  }

  /** The messages up to a leaf, oldest first; none if there is no such chat. */
  async load(chatId: string, options: LoadChatOptions = {}): Promise<Message[]> {
    checkOptions(options, { leaf: filledString }, 'load()');
    const chat = await this.#open(chatId).read();
    return this.#path(chatId, chat, options.leaf ?? leafOf(chat));
  }

  /**
   * Saves a conversation, or the end of one; its last message becomes the active leaf. Messages that the chat knows by their ids stay
   * where they are, with what they say now; each other one follows the message before it.
   */
  async save(chatId: string, messages: readonly Message[], options: SaveChatOptions = {}): Promise<void> {
    checkOptions(options, { after: orNull(filledString) }, 'save()');
    checkMessages(messages);
    const transcript = this.#open(chatId);
    const given = transcript.take(withoutAbsent(messages) as readonly UIMessage[] as Item[]);
    const edit = (chat: Chat): TranscriptEdit | undefined => {
      if (typeof options.after === 'string') openOutline(chatId, chat, options.after);
      return merge(chat, given, options.after === undefined ? leafOf(chat) : options.after);
    };
    await transcript.change({ trigger: 'messages_saved', edit });
  }

  /**
   * Goes back to before an answer, so that another can be saved beside it: returns the conversation to answer, whose last message is now
   * the active leaf. Of an assistant's message that is what it follows; of another one, itself.
   */
  async regenerateFrom(chatId: string, messageId: string): Promise<Message[]> {
    let path: Message[] = [];
    await this.#activate(chatId, (chat) => {
      const { id, role, follows } = openOutline(chatId, chat, messageId);
      const leaf = role === 'assistant' ? follows : id;
      path = this.#path(chatId, chat, leaf);
      return leaf;
    });
    return path;
  }

  /** The messages that follow the same one as this does, itself included, oldest first. */
  async siblings(chatId: string, messageId: string): Promise<Message[]> {
    const chat = await this.#open(chatId).read();
    const { follows } = openOutline(chatId, chat, messageId);
    const beside = chat.itemsFrom(0).filter((item) => item.follows === follows);
    return beside.map((item) => withoutPlace<Message>(item));
  }

  /** Makes the conversation that leads through a message the active one, to its newest end. */
  async setActiveLeaf(chatId: string, messageId: string): Promise<void> {
    await this.#activate(chatId, (chat) => newestBelow(chat, openOutline(chatId, chat, messageId).id));
  }

  /** Deletes a chat with its whole history and its streamed answer; returns whether it was there. */
  async delete(chatId: string): Promise<boolean> {
    await deleteSession(this.#transcripts.engine, streamSession(chatId));
    return this.#open(chatId).delete();
  }

  #open(chatId: string): Transcript<Item> {
    const name = parseName(chatId, 'A chat id');
    return this.#transcripts.open(parseName(`ai-sdk/${encodePart(name)}`, 'A chat id') as SessionId);
  }

  async #activate(chatId: string, choose: (chat: Chat) => string | null): Promise<void> {
    const edit = (chat: Chat): TranscriptEdit | undefined => {
      const leaf = choose(chat);
      return leaf === leafOf(chat) ? undefined : { keep: chat.length, add: [], extra: { leaf } };
    };
    await this.#open(chatId).change({ trigger: 'leaf_chosen', edit });
  }

  #path(chatId: string, chat: Chat, leaf: string | null): Message[] {
    if (leaf !== null) openOutline(chatId, chat, leaf);
    const items = new Map(chat.itemsFrom(0).map((item) => [item.id, item]));
    const path: Message[] = [];
    for (let item = items.get(leaf ?? ''); item !== undefined; item = items.get(item.follows ?? '')) {
      items.delete(item.id); // once: who edits by hand may make a circle
      path.push(withoutPlace<Message>(item));
    }
    return path.reverse();
  }
}

function withoutPlace<Message>(item: Item): Message {
  const { follows: _, ...message } = item;
  return message as unknown as Message;
}

function checkMessages(messages: readonly UIMessage[]): void {
  checkValue(messages, messageList, 'The messages of save()');
  const ids = new Set<string>();
  for (const { id } of messages) {
    if (ids.has(id))
      throw new InvalidInputError(`Two messages have the id "${id}"; nothing was saved. Give each its own.`, {
        details: { messageId: id },
      });
    ids.add(id);
  }
}

function leafOf({ extra }: Chat): string | null {
  return (extra as Extra)?.leaf ?? null;
}

function openOutline(chatId: string, chat: Chat, messageId: string): Outline {
  const at = chat.find(messageId);
  if (at !== undefined) return chat.outlines[at] as Outline;
  throw new NotFoundError(`Chat "${chatId}" has no message "${messageId}". Take an id of one that was saved.`, {
    details: { chatId, messageId },
  });
}

/** The end of the conversation through a message where every message is the newest that follows the one before. */
function newestBelow(chat: Chat, from: string): string {
  // Copied, because to go through a frozen list takes fifty times as long.
  const newest = new Map(([...chat.outlines] as Outline[]).map(({ id, follows }) => [follows, id]));
  let leaf = from;
  for (let next = newest.get(leaf); next !== undefined; next = newest.get(leaf)) {
    newest.delete(leaf);
    leaf = next;
  }
  return leaf;
}

/** What saving a conversation makes of a chat; undefined if it says so already. */
function merge(chat: Chat, messages: readonly Item[], after: string | null): TranscriptEdit | undefined {
  const from = Math.min(...messages.map(({ id }) => chat.find(id) ?? chat.length), chat.length);
  const items = chat.itemsFrom(from);
  let firstChanged = chat.length;
  let previous = after;
  for (const message of messages) {
    const at = chat.find(message.id);
    const known = at === undefined ? undefined : items[at - from];
    const item = { ...message, follows: known === undefined ? previous : known.follows };
    previous = item.id;
    if (at === undefined) items.push(item);
    else if (!isSameItems([known], [item])) {
      items[at - from] = item;
      firstChanged = Math.min(firstChanged, at);
    }
  }
  const leaf = messages.at(-1)?.id ?? leafOf(chat);
  const add = items.slice(firstChanged - from);
  return add.length === 0 && leaf === leafOf(chat) ? undefined : { keep: firstChanged, add, extra: { leaf } };
}
