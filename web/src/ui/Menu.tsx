import { useEffect, useId, useRef, useState } from "react";
import type { KeyboardEvent, ReactNode } from "react";

import { Icon } from "./Icon";
import type { IconName } from "./Icon";

interface Named {
  id: string;
  label: string;
  /** A second line, smaller. */
  description?: string | null;
}

export interface MenuAct extends Named {
  /** Of a choice: whether this is the one. */
  chosen?: boolean;
  danger?: boolean;
  act: () => void;
}

/** Leads to another list, in the place of the first. */
export interface MenuGroup extends Named {
  inside: readonly MenuAct[];
}

export type MenuItem = MenuAct | MenuGroup;

interface Props {
  /** What the button is called, or its value where there is a `hint`. */
  label: string;
  /** What the label is a value of: "Model". */
  hint?: string;
  items: readonly MenuItem[];
  /** Shown in the place of the label. */
  children?: ReactNode;
  /** Shown alone; the label is its tip. */
  icon?: IconName;
  disabled?: boolean;
}

const FILTERED = 9; // more choices than these and one wants to type

/** A button and the list that it opens. Arrow keys, Home, End, Enter, Escape; letters filter a long list. */
export function Menu({ label, hint, items, children, icon, disabled = false }: Props) {
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
    <div className="menu" ref={box}>
      <button
        ref={button}
        type="button"
        className={icon === undefined ? "button quiet" : "button quiet icon-only"}
        aria-haspopup="menu"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        aria-label={hint === undefined ? label : `${hint}: ${label}`}
        title={hint === undefined ? label : `${hint}: ${label}`}
        disabled={disabled}
        onClick={() => setOpen(!open)}
      >
        {icon === undefined && (children ?? <span className="menu-label">{label}</span>)}
        <Icon name={icon ?? "down"} />
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
  const [inside, setInside] = useState<MenuGroup | null>(null);
  const [filter, setFilter] = useState("");
  const list = useRef<HTMLDivElement>(null);
  const all: readonly MenuItem[] = inside?.inside ?? items;
  const long = all.filter((item) => "chosen" in item).length > FILTERED;
  const words = filter.toLowerCase();
  const shown = all.filter((item) => `${item.label} ${item.id}`.toLowerCase().includes(words));

  useEffect(() => {
    const chosen = list.current?.querySelector<HTMLElement>("[aria-checked=true]");
    chosen?.scrollIntoView({ block: "nearest" });
    if (!long) (chosen ?? list.current?.querySelector<HTMLElement>("[role^=menuitem]"))?.focus();
  }, [long, inside]);

  const go = (to: MenuGroup | null) => {
    setInside(to);
    setFilter("");
  };
  const take = (item: MenuItem) => {
    if ("inside" in item) {
      go(item);
    } else {
      onClose();
      item.act();
    }
  };
  const keys = (event: KeyboardEvent) => {
    const buttons = [...(list.current?.querySelectorAll<HTMLElement>("[role^=menuitem]") ?? [])];
    const at = buttons.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (inside !== null && (event.key === "Escape" || (event.key === "ArrowLeft" && filter === ""))) go(null);
    else if (event.key === "Escape" || event.key === "Tab") onClose();
    else if (event.key === "Enter" && at < 0) buttons[0]?.click();
    else if (to !== undefined) buttons[(to + buttons.length) % buttons.length]?.focus();
    else return;
    event.stopPropagation();
    event.preventDefault();
  };
  return (
    <div className="menu-box" onKeyDown={keys}>
      {inside !== null && (
        <button type="button" className="menu-back" tabIndex={-1} onClick={() => go(null)}>
          <Icon name="back" /> {inside.label}
        </button>
      )}
      {long && (
        <input
          className="input"
          type="search"
          aria-label={`Filter: ${inside?.label ?? label}`}
          placeholder="Filter"
          value={filter}
          onChange={(event) => setFilter(event.target.value)}
          autoFocus
        />
      )}
      <div role="menu" id={id} aria-label={inside?.label ?? label} ref={list} className="menu-list">
        {shown.map((item) => (
          <Choice key={item.id} item={item} onTake={() => take(item)} />
        ))}
        {shown.length === 0 && <p className="menu-none">Nothing fits “{filter}”.</p>}
      </div>
    </div>
  );
}

function Choice({ item, onTake }: { item: MenuItem; onTake: () => void }) {
  const { chosen, danger = false } = "act" in item ? item : {};
  return (
    <button
      type="button"
      role={chosen === undefined ? "menuitem" : "menuitemradio"}
      aria-checked={chosen}
      aria-haspopup={"inside" in item ? "menu" : undefined}
      tabIndex={-1}
      className={danger ? "menu-item danger" : "menu-item"}
      onClick={onTake}
    >
      <span className="menu-check">{chosen && <Icon name="check" />}</span>
      <span className="menu-words">
        {item.label}
        {item.description && <small>{item.description}</small>}
      </span>
      {"inside" in item && <Icon name="forward" />}
    </button>
  );
}
