// What the palette offers for the session that is shown: its menu, its settings, and what is beside it.

import { valueOf } from "../header/arranged";
import type { Choose } from "../header/useSettings";
import type { PaletteItem } from "../palette/commands";
import { TAB_NAMES, type Tab } from "../panel";
import type { Setting } from "../protocol";
import type { MenuAct } from "../ui/Menu";

interface Given {
  actions: readonly MenuAct[];
  /** Those that can be changed now. */
  settings: readonly Setting[];
  onChoose: Choose;
  tabs: readonly Tab[];
  onTab: (tab: Tab) => void;
}

export function commandsOf({ actions, settings, onChoose, tabs, onTab }: Given): readonly PaletteItem[] {
  return [
    ...actions.map(({ id, label, description, act }) => ({
      id: `session ${id}`,
      label,
      detail: description ?? "This session",
      act,
    })),
    ...settings.map((setting) => settingItem(setting, onChoose)),
    ...tabs.map((tab) => ({
      id: `tab ${tab}`,
      label: `Show ${TAB_NAMES[tab].toLowerCase()}`,
      detail: "Beside the conversation",
      act: () => onTab(tab),
    })),
  ];
}

function settingItem(setting: Setting, onChoose: Choose): PaletteItem {
  const { name, current, choices } = setting;
  const id = `setting ${setting.id}`;
  const detail = valueOf(setting);
  if (choices.length === 0) return { id, label: name, detail, act: () => onChoose(setting, current !== true) };
  return {
    id,
    label: `${name}…`,
    detail,
    inside: choices.map((choice) => ({
      id: choice.value,
      label: choice.name,
      detail: choice.value === String(current) ? "as it is now" : (choice.description ?? ""),
      act: () => onChoose(setting, choice.value),
    })),
  };
}
