import { useId, useLayoutEffect, useRef } from "react";
import type { ReactNode } from "react";

import { IconButton } from "./Button";

interface Props {
  title: string;
  onClose: () => void;
  children: ReactNode;
  /** No visible title and no padding: the content has its own. */
  bare?: boolean;
}

/** In front of everything else until it is closed: by its button, Escape, or a click beside it. */
export function Dialog({ title, onClose, children, bare = false }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  // Closed while it is still in the page, so that the keyboard goes back to where it was.
  useLayoutEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      className={bare ? "dialog bare" : "dialog"}
      aria-labelledby={bare ? undefined : heading}
      aria-label={bare ? title : undefined}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => {
        if (event.target === dialog.current) onClose();
      }}
    >
      {bare ? (
        children
      ) : (
        <div className="dialog-inside">
          <header>
            <h2 id={heading}>{title}</h2>
            <IconButton icon="close" label="Close" onClick={onClose} />
          </header>
          {children}
        </div>
      )}
    </dialog>
  );
}
