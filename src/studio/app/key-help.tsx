import { useState } from 'react';
import { hasLetterKeys } from '../frame/keys.ts';
import { Dialog } from '../parts/dialog.tsx';

const KEYS: readonly (readonly [title: string, keys: readonly (readonly [string, string])[]])[] = [
  [
    'Everywhere',
    [
      ['/ or Ctrl+K', 'Search and commands'],
      ['g s, g r, g m, g t', 'Sessions, runs, memory, storage'],
      ['T', 'Light or dark'],
      ['?', 'This list'],
      ['Esc', 'Close, or back'],
    ],
  ],
  [
    'Sessions',
    [
      ['j, k', 'Next, previous row'],
      ['Enter', 'Open'],
      ['x', 'Select, for acts on several'],
    ],
  ],
  [
    'Session',
    [
      ['j, k', 'Next, previous row'],
      ['h, l', 'Parent, child'],
      ['J, K', 'Ten rows on, back'],
      ['Enter', 'Open a folded run'],
      ['m, s, d, x, e', 'Messages, state, diff, context, effects'],
      ['D', 'Mark, then compare with the next selection'],
      ['n, p', 'Next, previous difference, in Diff and Compare'],
      ['b', 'Bisect: find the first bad step'],
      ['[, ]', 'The charts begin, end at the selected step'],
      ['f', 'Fork here'],
      ['c', 'Compare branches'],
      ['t', 'Tag'],
      ['r, R', 'Run one round, run'],
      ['Space', 'Pause the run'],
      ['.', 'Follow the newest'],
    ],
  ],
];

/** The keyboard map, and the switch for single letters. */
export function KeyHelp({ onClose }: { onClose: () => void }) {
  const [isOn, setOn] = useState(hasLetterKeys());
  const change = () => {
    localStorage.setItem('letterKeys', isOn ? 'off' : 'on');
    setOn(!isOn);
  };
  return (
    <Dialog title="Keys" onClose={onClose}>
      {KEYS.map(([title, keys]) => (
        <section className="sect" key={title}>
          <h3>{title}</h3>
          <dl className="dl" style={{ gridTemplateColumns: '160px 1fr' }}>
            {keys.map(([key, does]) => (
              <KeyRow key={key} name={key} does={does} />
            ))}
          </dl>
        </section>
      ))}
      <label className="sect" style={{ display: 'flex', gap: 8, border: 0 }}>
        <input type="checkbox" checked={isOn} onChange={change} />
        Single letters are keys
      </label>
    </Dialog>
  );
}

function KeyRow({ name, does }: { name: string; does: string }) {
  return (
    <>
      <dt>
        <kbd>{name}</kbd>
      </dt>
      <dd>{does}</dd>
    </>
  );
}
