import { useEffect, useId, useRef, useState } from "react";
import type { KeyboardEvent, ReactNode } from "react";

import { Icon } from "./Icon";

export interface MenuItem {
  id: string;
  label: string;
  /** A second line, smaller. */
  description?: string | null;
  /** Of a choice: whether this is the one. */
  chosen?: boolean;
  danger?: boolean;
  act: () => void;
}

interface Props {
  /** What the button is called; shown too unless `children` are. */
  label: string;
  /** What the label is a value of: "Model". */
  hint?: string | undefined;
  items: readonly MenuItem[];
  children?: ReactNode;
  className?: string;
  disabled?: boolean;
}

const FILTERED = 9; // more than these and one wants to type

/** A button and the list that it opens. Arrow keys, Home, End, Enter, Escape; letters filter a long list. */
export function Menu({ label, hint, items, children, className = "", disabled = false }: Props) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();

  useEffect(() => {
    if (!open) return;
    const outside = (event: PointerEvent) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    addEventListener("pointerdown", outside);
    return () => removeEventListener("pointerdown", outside);
  }, [open]);

  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  return (
    <div className={`menu ${className}`} ref={box}>
      <button
        ref={button}
        type="button"
        className={children === undefined ? "button quiet" : "button quiet icon-only"}
        aria-haspopup="menu"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        aria-label={hint !== undefined ? `${hint}: ${label}` : children === undefined ? undefined : label}
        title={hint ?? (children === undefined ? undefined : label)}
        disabled={disabled}
        onClick={() => setOpen(!open)}
      >
        {children ?? (
          <>
            <span className="menu-label">{label}</span>
            <Icon name="down" />
          </>
        )}
      </button>
      {open && <Choices id={id} label={hint ?? label} items={items} onClose={close} />}
    </div>
  );
}

function Choices({
  id,
  label,
  items,
  onClose,
}: {
  id: string;
  label: string;
  items: readonly MenuItem[];
  onClose: () => void;
}) {
  const [filter, setFilter] = useState("");
  const list = useRef<HTMLDivElement>(null);
  const long = items.length > FILTERED;
  const words = filter.toLowerCase();
  const shown = items.filter((item) => `${item.label} ${item.id}`.toLowerCase().includes(words));

  useEffect(() => {
    const chosen = list.current?.querySelector<HTMLElement>("[aria-checked=true]");
    chosen?.scrollIntoView({ block: "nearest" });
    if (!long) (chosen ?? list.current?.querySelector<HTMLElement>("[role^=menuitem]"))?.focus();
  }, [long]);

  const keys = (event: KeyboardEvent) => {
    const buttons = [...(list.current?.querySelectorAll<HTMLElement>("[role^=menuitem]") ?? [])];
    const at = buttons.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") onClose();
    else if (event.key === "Enter" && at < 0) buttons[0]?.click();
    else if (to !== undefined) buttons[(to + buttons.length) % buttons.length]?.focus();
    else return;
    event.stopPropagation();
    event.preventDefault();
  };
  return (
    <div className="menu-box" onKeyDown={keys}>
      {long && (
        <input
          className="input"
          type="search"
          aria-label={`Filter: ${label}`}
          placeholder="Filter"
          value={filter}
          onChange={(event) => setFilter(event.target.value)}
          autoFocus
        />
      )}
      <div role="menu" id={id} aria-label={label} ref={list} className="menu-list">
        {shown.map((item) => (
          <button
            key={item.id}
            type="button"
            role={item.chosen === undefined ? "menuitem" : "menuitemradio"}
            aria-checked={item.chosen}
            tabIndex={-1}
            className={item.danger ? "menu-item danger" : "menu-item"}
            onClick={() => {
              onClose();
              item.act();
            }}
          >
            <span className="menu-check">{item.chosen && <Icon name="check" />}</span>
            <span>
              {item.label}
              {item.description && <small>{item.description}</small>}
            </span>
          </button>
        ))}
        {shown.length === 0 && <p className="menu-none">Nothing fits “{filter}”.</p>}
      </div>
    </div>
  );
}
