import { Dialog as BaseDialog } from "@base-ui/react/dialog";
import { useRef, useState } from "react";
import type { ReactNode } from "react";

import { Icon } from "./Icon";
import "./ui.css";

/** Closes the dialog, returns the focus to where it was, then calls `action`. */
export type CloseDialog = (action?: () => void) => void;

interface Props {
  title: string;
  onClose: () => void;
  children: ReactNode | ((close: CloseDialog) => ReactNode);
  /** No visible title and no padding: the content has its own. */
  bare?: boolean;
}

/** A modal dialog, open for as long as it is mounted. Its button, Escape and a click outside close it. */
export function Dialog({ title, onClose, children, bare = false }: Props) {
  const [open, setOpen] = useState(true);
  // Before an input in the dialog takes the focus.
  const [previous] = useState(() => document.activeElement);
  const afterClose = useRef<(() => void) | undefined>(undefined);
  const close: CloseDialog = (action) => {
    afterClose.current = action;
    setOpen(false);
  };
  const onComplete = (isOpen: boolean) => {
    if (isOpen) return;
    // Here, and not by the library, which does it later: the action may move the keyboard elsewhere.
    if (previous instanceof HTMLElement) previous.focus();
    onClose();
    afterClose.current?.();
  };
  const content = typeof children === "function" ? children(close) : children;
  return (
    <BaseDialog.Root open={open} onOpenChange={setOpen} onOpenChangeComplete={onComplete}>
      <BaseDialog.Portal>
        <BaseDialog.Backdrop className="dialog-backdrop" />
        <BaseDialog.Viewport className={bare ? "dialog-viewport bare" : "dialog-viewport"}>
          <BaseDialog.Popup
            className="dialog"
            aria-label={bare ? title : undefined}
            finalFocus={() => (open && previous instanceof HTMLElement ? previous : false)}
          >
            {bare ? (
              content
            ) : (
              <div className="dialog-inside">
                <header>
                  <BaseDialog.Title>{title}</BaseDialog.Title>
                  {/* Without a tooltip: it has the focus at first, and Escape would only close the tooltip. */}
                  <BaseDialog.Close className="button quiet icon-only" aria-label="Close">
                    <Icon name="close" />
                  </BaseDialog.Close>
                </header>
                {content}
              </div>
            )}
          </BaseDialog.Popup>
        </BaseDialog.Viewport>
      </BaseDialog.Portal>
    </BaseDialog.Root>
  );
}
