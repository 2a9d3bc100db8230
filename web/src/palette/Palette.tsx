import { useEffect, useId, useRef, useState } from "react";
import type { KeyboardEvent } from "react";

import { Dialog } from "../ui/Dialog";
import { fitting } from "./commands";
import type { PaletteGroup, PaletteItem } from "./commands";
import { usePaletteItems } from "./usePaletteItems";
import "./palette.css";

interface Props {
  onSearch: () => void;
  onKeys: () => void;
  onClose: () => void;
}

/** Everything by its name: type, choose with the arrows, Enter. Backspace leads out of what Enter led into. */
export function Palette({ onSearch, onKeys, onClose }: Props) {
  const items = usePaletteItems(onSearch, onKeys);
  const [inside, setInside] = useState<PaletteGroup | null>(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const id = useId();
  const shown = fitting(inside?.inside ?? items, text);
  const what = inside?.label ?? "What to do, or the name of a session";

  useEffect(() => {
    list.current?.children[at]?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const run = (item: PaletteItem | undefined) => {
    if (item === undefined) return;
    if ("inside" in item) {
      go(item);
    } else {
      onClose();
      item.act();
    }
  };
  const go = (to: PaletteGroup | null) => {
    setInside(to);
    setText("");
    setAt(0);
  };
  const keys = (event: KeyboardEvent) => {
    const count = Math.max(1, shown.length);
    if (event.key === "ArrowDown") setAt((at + 1) % count);
    else if (event.key === "ArrowUp") setAt((at - 1 + count) % count);
    else if (event.key === "Enter") run(shown[at]);
    else if (event.key === "Backspace" && text === "" && inside !== null) go(null);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Commands" bare onClose={onClose}>
      <div className="palette" onKeyDown={keys}>
        <input
          className="input"
          role="combobox"
          aria-label={what}
          aria-expanded="true"
          aria-controls={id}
          aria-activedescendant={shown.length > 0 ? `${id}-${at}` : undefined}
          placeholder={what}
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          autoFocus
        />
        <ul role="listbox" id={id} aria-label="Commands" ref={list}>
          {shown.map((item, place) => (
            <li
              key={item.id}
              id={`${id}-${place}`}
              role="option"
              aria-selected={place === at}
              onMouseMove={() => setAt(place)}
              onClick={() => run(item)}
            >
              <span>{item.label}</span> <small>{item.detail}</small>
            </li>
          ))}
        </ul>
        {shown.length === 0 && <p className="list-note">Nothing fits.</p>}
      </div>
    </Dialog>
  );
}
