/** One event of the stream: ids only; whoever wants more asks for it. */
export type StreamEvent = {
  /** Where to go on from after a lost connection. */
  readonly id: string;
  /** `ready`: from here on everything is told. `checkpoint`: saved. `deleted`: gone. `refs`: branches, tags or pins of a session changed. `run`: a run from the page began or stopped. `resync`: some were missed, so read again. */
  readonly event: 'ready' | 'checkpoint' | 'deleted' | 'refs' | 'run' | 'resync';
  readonly sessionId?: string;
  readonly checkpointId?: string;
  readonly branch?: string;
};

/** Reads server-sent events until the connection ends. */
export async function* readEvents(response: Response): AsyncGenerator<StreamEvent> {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = `${rest}${value}`.split('\n\n');
      rest = blocks.pop() ?? '';
      for (const block of blocks) yield* parseBlock(block);
    }
  } finally {
    await reader.cancel().catch(() => undefined); // it may have ended with an error that was thrown already
  }
}

function parseBlock(block: string): StreamEvent[] {
  const fields = new Map(
    block.split('\n').map((line): [string, string] => {
      const at = line.indexOf(':');
      return [line.slice(0, at), line.slice(at + 1).trimStart()];
    }),
  );
  const [event, data] = [fields.get('event'), fields.get('data')];
  if (event === undefined || data === undefined) return [];
  return [{ id: fields.get('id') ?? '', event: event as StreamEvent['event'], ...(JSON.parse(data) as object) }];
}
