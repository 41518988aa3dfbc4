import { type ReactNode, useEffect, useRef } from 'react';
import { Icon } from './icon.tsx';

/** A dialog above the page; the browser keeps the focus in it, and Escape closes it. */
export function Dialog({
  title,
  onClose,
  children,
  isBare = false,
}: {
  title: string;
  onClose: () => void;
  children: ReactNode;
  isBare?: boolean;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (dialog.current?.open === false) dialog.current.showModal();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-label={title}
      onClose={onClose}
      onPointerDown={(event) => event.target === dialog.current && dialog.current.close()}
    >
      {!isBare && (
        <div className="head">
          <h2 className="grow">{title}</h2>
          <button
            type="button"
            className="btn sm icon quiet"
            aria-label="Close"
            onClick={() => dialog.current?.close()}
          >
            <Icon name="x" small />
          </button>
        </div>
      )}
      {children}
    </dialog>
  );
}
