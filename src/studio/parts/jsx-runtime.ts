import type { ElementType, Key, ReactElement } from 'react';
import { Fragment, jsx as make, jsxs as makeMany } from 'react/jsx-runtime';
import { visible } from '../data/format.ts';

/** What JSX of the studio is compiled to: React's own, but every text is shown with what has no shape of its own spelled out. */
export function jsx(type: ElementType, props: Props, key?: Key): ReactElement {
  return make(type, spelled(type, props), key);
}

/** The same for an element with several children. */
export function jsxs(type: ElementType, props: Props, key?: Key): ReactElement {
  return makeMany(type, spelled(type, props), key);
}

export { Fragment };

type Props = { readonly children?: unknown; readonly title?: unknown };

/** What the browser draws; components hand their children on to such elements. */
function spelled(type: ElementType, props: Props): Props {
  if (typeof type !== 'string' && type !== Fragment) return props;
  const children = Array.isArray(props.children) ? props.children.map(spell) : spell(props.children);
  return {
    ...props,
    ...(children !== undefined && { children }),
    ...(props.title !== undefined && { title: spell(props.title) }),
  };
}

function spell(part: unknown): unknown {
  return typeof part === 'string' ? visible(part) : part;
}
