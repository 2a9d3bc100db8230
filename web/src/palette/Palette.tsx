import { Command } from "cmdk";
import { useState } from "react";
import type { KeyboardEvent } from "react";

import { type CloseDialog, Dialog } from "../ui/Dialog";
import { filterCommands } from "./commands";
import type { PaletteGroup, PaletteItem } from "./commands";
import { usePaletteItems } from "./usePaletteItems";
import "./palette.css";

interface Props {
  onSearch: () => void;
  onShortcuts: () => void;
  onClose: () => void;
}

/** The command palette: type, choose with the arrow keys, press Enter. Backspace leaves a group. */
export function Palette({ onSearch, onShortcuts, onClose }: Props) {
  const items = usePaletteItems(onSearch, onShortcuts);
  return (
    <Dialog title="Commands" bare onClose={onClose}>
      {(close) => <CommandList items={items} close={close} />}
    </Dialog>
  );
}

function CommandList({ items, close }: { items: readonly PaletteItem[]; close: CloseDialog }) {
  const [group, setGroup] = useState<PaletteGroup | null>(null);
  const [text, setText] = useState("");
  const shown = filterCommands(group?.inside ?? items, text);
  const label = group?.label ?? "Search commands and sessions";
  const enter = (next: PaletteGroup | null) => {
    setGroup(next);
    setText("");
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Backspace" || text !== "" || group === null) return;
    event.preventDefault();
    enter(null);
  };
  return (
    // The key starts a group at its first item.
    <Command key={group?.id} className="palette" label={label} shouldFilter={false} loop onKeyDown={onKeyDown}>
      <Command.Input className="input" placeholder={label} value={text} onValueChange={setText} autoFocus />
      <Command.List label="Commands">
        {shown.map((item) => (
          <Command.Item
            key={item.id}
            value={item.id}
            onSelect={() => ("inside" in item ? enter(item) : close(item.act))}
          >
            <span>{item.label}</span> <small>{item.detail}</small>
          </Command.Item>
        ))}
        <Command.Empty className="list-note">No matches.</Command.Empty>
      </Command.List>
    </Command>
  );
}
