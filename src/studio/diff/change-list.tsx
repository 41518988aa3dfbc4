import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useRef } from 'react';
import { ChangeBox } from './change-box.tsx';
import type { Change, Diff } from './changes.ts';

const ESTIMATED_HEIGHT = 120;

type ListProps = { diff: Diff; changes: readonly Change[]; isInline: boolean; isNarrow?: boolean; at: number };

/** The changes one below the other; only those on the screen are made. */
export function ChangeList({ diff, changes, isInline, isNarrow = false, at }: ListProps) {
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: changes.length,
    getScrollElement: () => box.current,
    estimateSize: () => ESTIMATED_HEIGHT,
    overscan: 3,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another change may move what is read
  useEffect(() => {
    if (at >= 0) rows.scrollToIndex(at, { align: 'start' });
  }, [at]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard
    <section className="scroll grow" ref={box} tabIndex={0} aria-label="Changes">
      <div className="virtual" style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map(({ index, key, start }) => {
          const change = changes[index];
          return (
            <div key={key} ref={rows.measureElement} data-index={index} style={{ transform: `translateY(${start}px)` }}>
              {change !== undefined && (
                <ChangeBox diff={diff} change={change} isInline={isInline} isNarrow={isNarrow} isHere={index === at} />
              )}
            </div>
          );
        })}
      </div>
    </section>
  );
}
