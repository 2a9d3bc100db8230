import type { Setting } from "../protocol";
import { Menu } from "../ui/Menu";
import type { MenuAction, MenuItem } from "../ui/Menu";
import { settingValueLabel } from "./settingsLayout";
import type { Choose } from "./useSettings";

interface Props {
  setting: Setting;
  disabled: boolean;
  onChoose: Choose;
}

/** Model, mode, effort, or whatever else the agent lets one choose. */
export function SettingPicker({ setting, disabled, onChoose }: Props) {
  const { name, current } = setting;
  const value = settingValueLabel(setting);
  if (setting.choices.length === 0) {
    return (
      <button
        type="button"
        className="button quiet"
        role="switch"
        aria-checked={current === true}
        aria-label={name}
        disabled={disabled}
        onClick={() => onChoose(setting, current !== true)}
      >
        <SettingLabel name={name} value={value} />
      </button>
    );
  }
  return (
    <Menu label={value} hint={name} disabled={disabled} items={choicesOf(setting, onChoose)}>
      <SettingLabel name={name} value={value} />
    </Menu>
  );
}

function SettingLabel({ name, value }: { name: string; value: string }) {
  return (
    <span className="menu-label">
      <span className="setting-name">{name}: </span>
      {value}
    </span>
  );
}

interface FoldedProps {
  /** Their values, if there is room to show them. */
  value: string | null;
  settings: readonly Setting[];
  disabled: boolean;
  onChoose: Choose;
}

/** Settings for which there is no room, one below the other; each leads to its choices. */
export function FoldedSettings({ value, settings, disabled, onChoose }: FoldedProps) {
  const items = settings.map((setting): MenuItem => {
    const item = { id: setting.id, label: setting.name, description: settingValueLabel(setting) };
    return setting.choices.length > 0
      ? { ...item, inside: choicesOf(setting, onChoose) }
      : { ...item, act: () => onChoose(setting, setting.current !== true) };
  });
  return (
    <Menu label={value ?? "more"} hint="Settings" disabled={disabled} items={items}>
      {value === null ? <span className="menu-label">More</span> : <SettingLabel name="Settings" value={value} />}
    </Menu>
  );
}

function choicesOf(setting: Setting, onChoose: Choose): readonly MenuAction[] {
  return setting.choices.map((choice) => ({
    id: choice.value,
    label: choice.name,
    description: choice.description,
    chosen: choice.value === String(setting.current),
    act: () => onChoose(setting, choice.value),
  }));
}
