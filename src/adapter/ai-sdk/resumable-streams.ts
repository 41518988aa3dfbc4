import { accepts, checkValue, having, isRecord } from '../../core/options.ts';
import { parseName, type SessionId } from '../../core/record/id.ts';
import { backoff } from '../../core/time/backoff.ts';
import { sleep } from '../../core/time/timer.ts';
import type { Engine } from '../../manager/engine/engine.ts';
import { isHolderDead, nameHolder } from '../../manager/lease/lease-refs.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { type AdapterStorageOptions, toOptions } from '../adapter-storage.ts';
import { encodePart } from '../session-name.ts';
import type { Transcript } from '../transcript/transcript.ts';
import { Transcripts } from '../transcript/transcripts.ts';

/** What is stored beside the texts of a stream. */
type StreamState = {
  /** Who writes it, unique to the stream. */
  readonly holder: string;
  /** Rises while somebody writes it, also if there is nothing to write. */
  readonly beat: number;
  readonly status: 'open' | 'done' | 'failed';
  readonly isStopped?: boolean;
};

/** An answer that is being streamed, as whoever makes it has it. */
export type ActiveStream = {
  /** Pass it as `abortSignal`: it aborts when somebody stops the answer, and when it cannot be stored. */
  readonly signal: AbortSignal;
  /** Pass it as `consumeSseStream`. Resolves when the answer is stored to its end, or will not be; never rejects. */
  readonly record: (options: { readonly stream: ReadableStream<string> }) => Promise<void>;
};

/** Parts that arrive meanwhile are stored together. */
const FLUSH_MS = 50;
/** A stream that is silent for so many flushes gives a sign of life. */
const FLUSHES_PER_BEAT = 20;
/** Without a sign of life for this long its process is taken for dead; on the same machine that is known at once. */
const DEAD_MS = 15_000;
/** How often one who follows a stream looks for more. */
const PAUSES = { firstMs: 20, maxMs: 250 };

/** As the SDK sends its streams. */
const HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache',
  connection: 'keep-alive',
  'x-vercel-ai-ui-message-stream': 'v1',
  'x-accel-buffering': 'no',
};

const CUT = 'The process that wrote this answer ended before the answer was complete. Ask again.';
const REPLACED = 'Another answer was begun in this chat before this one was complete. Load the chat again.';
const FAILED = 'This answer could not be completed. Ask again.';

function hasStream(value: unknown): boolean {
  return isRecord(value) && having('pipeTo')(value.stream) === undefined;
}

/** Opens the streams of a storage, or of a manager. */
export function resumableStreams(storageOrOptions: ChunkStorage | AdapterStorageOptions): ResumableStreams;
export function resumableStreams(...given: [ChunkStorage | AdapterStorageOptions]): ResumableStreams {
  return new ResumableStreams(toOptions<AdapterStorageOptions>(given, {}, 'resumableStreams()'));
}

/**
 * The last streamed answer of each chat, stored while it is made: a client whose connection was cut gets all of it from any process,
 * from the beginning and on as it goes on. It is the session `ai-sdk/<chat id>/stream`, which the next answer begins anew.
 */
export class ResumableStreams {
  readonly #transcripts: Transcripts<string>;

  constructor(options: AdapterStorageOptions) {
    this.#transcripts = Transcripts.of(options, STREAM_ADAPTER);
  }

  /** Begins an answer in a chat. The one before it is deleted; if it is still being made, it is stored no further. */
  async begin(chatId: string): Promise<ActiveStream> {
    const transcript = this.#open(chatId);
    await transcript.delete();
    const state: StreamState = { holder: nameHolder(this.#transcripts.engine.ports.nextId()), beat: 0, status: 'open' };
    const edit = () => ({ keep: 0, add: [], extra: state });
    await transcript.change({ trigger: 'stream_started', edit });
    const recorder = new StreamRecorder(this.#transcripts.engine, transcript, state.holder);
    const record: ActiveStream['record'] = (given) => {
      checkValue(given, accepts('an object with a stream', hasStream), 'What is given to record()');
      return recorder.record(given.stream);
    };
    return { signal: recorder.signal, record };
  }

  /**
   * The answer that is being made in a chat, as a response for a client that reconnects: 204 if there is none. If its process died, it
   * ends with an `error` part.
   */
  async resume(chatId: string): Promise<Response> {
    const transcript = this.#open(chatId);
    const state = (await transcript.read()).extra as StreamState | null;
    if (state === null || state.status === 'done') return new Response(null, { status: 204 });
    const texts = this.#follow(transcript, state.holder);
    const encoder = new TextEncoder();
    const body = new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        const { done, value } = await texts.next();
        if (done === true) controller.close();
        else controller.enqueue(encoder.encode(value));
      },
      cancel: () => texts.return(undefined).then(() => undefined),
    });
    return new Response(body, { headers: HEADERS });
  }

  /** Stops the answer that is being made in a chat, in whatever process; returns whether there is one. */
  async stop(chatId: string): Promise<boolean> {
    const { status } = await this.#open(chatId).change({
      trigger: 'stream_stopped',
      edit: ({ length, extra }) => {
        const state = extra as StreamState | null;
        return state?.status === 'open' ? { keep: length, add: [], extra: { ...state, isStopped: true } } : undefined;
      },
    });
    return status === 'stored';
  }

  /** Deletes what is stored of a chat's last answer; returns whether there was something. */
  delete(chatId: string): Promise<boolean> {
    return this.#open(chatId).delete();
  }

  #open(chatId: string): Transcript<string> {
    return this.#transcripts.open(streamSession(chatId));
  }

  /** All of a stream, and what is added to it, until it ends in one way or another. */
  async *#follow(transcript: Transcript<string>, holder: string): AsyncGenerator<string, void> {
    let [at, beat, silentMs] = [0, -1, 0];
    for (let looks = 1; ; looks++) {
      const isDead = isHolderDead({ holder }) || silentMs > DEAD_MS; // asked first: it may end well and then exit
      const view = await transcript.read();
      const state = view.extra as StreamState | null;
      if (state?.holder !== holder) return yield endWith(REPLACED);
      yield* view.itemsFrom(at);
      at = view.length;
      if (state.status === 'done') return;
      if (state.status === 'failed') return yield endWith(FAILED);
      if (isDead) return yield endWith(CUT);
      const pauseMs = backoff(looks, PAUSES);
      silentMs += pauseMs;
      if (state.beat !== beat) [looks, silentMs] = [0, 0];
      beat = state.beat;
      await sleep(this.#transcripts.engine.ports, pauseMs);
    }
  }
}

const STREAM_ADAPTER = 'ai-sdk-stream';

/** The session of a chat's last streamed answer. */
export function streamSession(chatId: string): SessionId {
  return parseName(`ai-sdk/${encodePart(parseName(chatId, 'A chat id'))}/stream`, 'A chat id') as SessionId;
}

/** The last parts of a stream that did not come to its end. */
function endWith(errorText: string): string {
  return `data: ${JSON.stringify({ type: 'error', errorText })}\n\ndata: [DONE]\n\n`;
}

/** Stores one stream while it is sent. */
class StreamRecorder {
  readonly #engine: Engine;
  readonly #transcript: Transcript<string>;
  readonly #holder: string;
  readonly #stopping = new AbortController();

  constructor(engine: Engine, transcript: Transcript<string>, holder: string) {
    this.#engine = engine;
    this.#transcript = transcript;
    this.#holder = holder;
  }

  get signal(): AbortSignal {
    return this.#stopping.signal;
  }

  async record(stream: ReadableStream<string>): Promise<void> {
    const texts: string[] = [];
    const leaving = new AbortController();
    const taking = new WritableStream<string>({ write: (text) => void texts.push(text) });
    const over = stream.pipeTo(taking, { signal: leaving.signal }).then(
      () => 'done' as const,
      () => 'failed' as const,
    );
    const wait = async () => {
      await sleep(this.#engine.ports, FLUSH_MS);
      return 'open' as const;
    };
    try {
      for (let flushes = 1, isOwn = true; isOwn; flushes++) {
        const status = await Promise.race([over, wait()]);
        if (texts.length === 0 && status === 'open' && flushes % FLUSHES_PER_BEAT > 0) continue;
        isOwn = (await this.#write(texts.splice(0), status)) && status === 'open';
      }
    } catch (error) {
      this.#stopping.abort(error); // an answer that cannot be stored is not made: the SDK hears no errors here
    } finally {
      leaving.abort();
    }
  }

  /** Adds texts; returns whether the stream is still the chat's last one. */
  async #write(add: readonly string[], status: StreamState['status']): Promise<boolean> {
    let before: StreamState | null = null;
    await this.#transcript.change({
      trigger: status === 'open' ? 'stream_written' : 'stream_ended',
      edit: ({ length, extra }) => {
        before = extra as StreamState | null;
        if (before?.holder !== this.#holder) return undefined;
        return { keep: length, add, extra: { ...before, beat: before.beat + 1, status } };
      },
    });
    const found = before as StreamState | null;
    if (found?.holder !== this.#holder) return false;
    if (found.isStopped === true) this.#stopping.abort(new DOMException('The answer was stopped.', 'AbortError'));
    return true;
  }
}
