import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useRef } from 'react';
import type { Reply } from '../data/server.ts';
import type { Look } from '../look/look.ts';
import { Skeleton, Trouble } from '../parts/trouble.tsx';
import { Message, type MessagePlace, RawMessage } from './message.tsx';
import { useMessages } from './use-messages.ts';

/** A message of a state. */
export type ShownMessage = Reply<'GET /v1/checkpoints/{checkpoint}/messages'>['items'][number];

/** The conversation of the branch, with the messages that the selected checkpoint brought marked. */
export function MessagesTab({ view, selection, drift, query, id }: Look & { query: URLSearchParams; id: string }) {
  const { timeline } = view;
  const { firstBad } = drift;
  const isRaw = query.get('raw') !== null;
  const count = timeline.messages[selection.at] ?? -1;
  const before = timeline.messages[timeline.parents[selection.at] ?? -1] ?? 0;
  const tip = timeline.tipOf(selection.branch);
  // Where messages are only appended, the newest state has them all, and one list serves every selection.
  const last = timeline.hasMessagesOf(tip, selection.at) ? tip : selection.at;
  const source = timeline.ids[last] ?? id;
  const isOfStep = (message: ShownMessage) =>
    message.checkpointId === id || (count >= 0 && message.index >= before && message.index < count);
  const sequenceOf = (message: number) => timeline.sequences[timeline.originOf(last, message)];
  const placeOf = ({ checkpointId }: ShownMessage): MessagePlace => ({
    sequenceOf,
    sinceMs: timeline.sinceMessageBefore(timeline.find(checkpointId)),
    isFirstBad: checkpointId !== undefined && checkpointId === firstBad,
  });
  return (
    <MessageList
      key={String(isRaw)}
      source={source}
      selected={count > 0 ? count - 1 : undefined}
      isRaw={isRaw}
      isOfStep={isOfStep}
      placeOf={placeOf}
      onSelect={(checkpointId) => selection.select(timeline.find(checkpointId))}
    />
  );
}

type ListProps = {
  source: string;
  /** Which message to show; the last one if that is not known. */
  selected: number | undefined;
  isRaw: boolean;
  isOfStep: (message: ShownMessage) => boolean;
  placeOf: (message: ShownMessage) => MessagePlace;
  onSelect: (checkpointId: string) => void;
};

/** All messages of a state; those on the screen are read. */
function MessageList({ source, selected, isRaw, isOfStep, placeOf, onSelect }: ListProps) {
  const box = useRef<HTMLDivElement>(null);
  const { total, error, get, want } = useMessages(source);
  const rows = useVirtualizer({
    count: total ?? 0,
    getScrollElement: () => box.current,
    estimateSize: () => 72,
    overscan: 6,
  });
  const shown = rows.getVirtualItems();
  useEffect(() => want(shown[0]?.index ?? 0, shown.at(-1)?.index ?? 0));
  const target = Math.min(selected ?? Number.POSITIVE_INFINITY, (total ?? 0) - 1);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another selection may move what is read
  useEffect(() => {
    if (target >= 0) rows.scrollToIndex(target, { align: selected === undefined ? 'end' : 'center' });
  }, [target]);
  if (total === undefined) return error === undefined ? <Skeleton /> : <Trouble error={error} />;
  if (total === 0) return <p className="empty">This state holds no messages. The tab State shows what it holds.</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard
    <section className="scroll grow" ref={box} tabIndex={0} aria-label="Messages">
      {error !== undefined && <Trouble error={error} />}
      <div className="virtual" style={{ height: rows.getTotalSize() }}>
        {shown.map(({ index, key, start }) => {
          const message = get(index);
          return (
            <div key={key} ref={rows.measureElement} data-index={index} style={{ transform: `translateY(${start}px)` }}>
              {message === undefined ? (
                <div className="msg" aria-busy="true" style={{ height: 72 }} />
              ) : (
                <Message message={message} isSelected={isOfStep(message)} place={placeOf(message)} onSelect={onSelect}>
                  {isRaw && <RawMessage checkpoint={source} path={message.path} />}
                </Message>
              )}
            </div>
          );
        })}
      </div>
    </section>
  );
}
