// The palette's commands for the current session: its actions, settings and panel tabs.

import { settingValueLabel } from "../header/settingsLayout";
import type { Choose } from "../header/useSettings";
import type { PaletteItem } from "../palette/commands";
import { TAB_LABELS, type Tab } from "../panel";
import type { Setting } from "../protocol";
import type { MenuAction } from "../ui/Menu";

interface SessionCommandSources {
  actions: readonly MenuAction[];
  /** Those that can be changed now. */
  settings: readonly Setting[];
  onChoose: Choose;
  tabs: readonly Tab[];
  onTab: (tab: Tab) => void;
}

export function sessionCommands({
  actions,
  settings,
  onChoose,
  tabs,
  onTab,
}: SessionCommandSources): readonly PaletteItem[] {
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
      label: `Show ${TAB_LABELS[tab].toLowerCase()}`,
      detail: "Side panel",
      act: () => onTab(tab),
    })),
  ];
}

function settingItem(setting: Setting, onChoose: Choose): PaletteItem {
  const { name, current, choices } = setting;
  const id = `setting ${setting.id}`;
  const detail = settingValueLabel(setting);
  if (choices.length === 0) return { id, label: name, detail, act: () => onChoose(setting, current !== true) };
  return {
    id,
    label: `${name}…`,
    detail,
    inside: choices.map((choice) => ({
      id: choice.value,
      label: choice.name,
      detail: choice.value === String(current) ? "current" : (choice.description ?? ""),
      act: () => onChoose(setting, choice.value),
    })),
  };
}
