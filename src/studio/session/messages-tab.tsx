import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useRef } from 'react';
import type { Reply } from '../data/server.ts';
import { useReply } from '../data/use-reply.ts';
import { Trouble } from '../parts/trouble.tsx';
import { Message } from './message.tsx';
import type { Shared } from './session-screen.tsx';

/** A message of a state. */
export type ShownMessage = Reply<'GET /v1/checkpoints/{checkpoint}/messages'>['items'][number];

const LIMIT = 1_000;

/** The conversation of the branch, with the messages that the selected checkpoint brought marked. */
export function MessagesTab({ view, selection, id }: Shared & { id: string }) {
  const { timeline } = view;
  const count = timeline.messages[selection.at] ?? -1;
  const before = timeline.messages[timeline.parents[selection.at] ?? -1] ?? 0;
  const tip = timeline.tipOf(selection.branch);
  // Where checkpoints count their messages, the newest state has them all, and one list serves every selection.
  const source = count >= 0 && (timeline.messages[tip] ?? -1) >= count ? (timeline.ids[tip] ?? id) : id;
  const asked = useReply('GET /v1/checkpoints/{checkpoint}/messages', {
    params: { checkpoint: source },
    query: { limit: LIMIT, last: true as never },
  });
  const items = asked.value?.items ?? [];
  const isOfStep = (message: ShownMessage) =>
    message.checkpointId === id || (count >= 0 && message.index >= before && message.index < count);
  const selected = items.findIndex(isOfStep);
  if (asked.value === undefined && asked.error !== undefined) return <Trouble error={asked.error} />;
  if (asked.value !== undefined && items.length === 0)
    return <p className="empty">This state holds no messages. The tab State shows what it holds.</p>;
  return (
    <MessageList
      items={items}
      total={asked.value?.total ?? 0}
      selected={selected >= 0 ? selected : items.length - 1}
      isOfStep={isOfStep}
      onSelect={(checkpointId) => selection.select(timeline.find(checkpointId))}
    />
  );
}

type ListProps = {
  items: readonly ShownMessage[];
  total: number;
  selected: number;
  isOfStep: (message: ShownMessage) => boolean;
  onSelect: (checkpointId: string) => void;
};

function MessageList({ items, total, selected, isOfStep, onSelect }: ListProps) {
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => box.current,
    estimateSize: () => 72,
    getItemKey: (n) => items[n]?.path ?? n,
    overscan: 6,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another selection may move what is read
  useEffect(() => {
    if (selected >= 0) rows.scrollToIndex(selected, { align: 'center' });
  }, [selected, items.length === 0]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard
    <section className="scroll grow" ref={box} tabIndex={0} aria-label="Messages">
      {items.length < total && (
        <p className="sect t3">
          The last {items.length} of {total} messages.
        </p>
      )}
      <div className="virtual" style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map(({ index, key, start }) => {
          const message = items[index];
          if (message === undefined) return null;
          return (
            <div key={key} ref={rows.measureElement} data-index={index} style={{ transform: `translateY(${start}px)` }}>
              <Message message={message} isSelected={isOfStep(message)} onSelect={onSelect} />
            </div>
          );
        })}
      </div>
    </section>
  );
}
