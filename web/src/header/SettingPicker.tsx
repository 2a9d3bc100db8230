import type { Setting } from "../protocol";
import { Menu } from "../ui/Menu";
import { useSetting } from "./useSetting";

/** Model, mode, effort, or whatever else the agent lets one choose. */
export function SettingPicker({
  sessionId,
  setting,
  disabled,
}: {
  sessionId: string;
  setting: Setting;
  disabled: boolean;
}) {
  const [current, choose] = useSetting(sessionId, setting);
  if (setting.choices.length === 0) {
    if (typeof current !== "boolean") return null;
    return (
      <button
        type="button"
        className="button quiet"
        role="switch"
        aria-checked={current}
        disabled={disabled}
        onClick={() => choose(!current)}
      >
        {setting.name}: {current ? "on" : "off"}
      </button>
    );
  }
  const chosen = setting.choices.find((choice) => choice.value === String(current));
  const value = chosen?.name ?? String(current ?? "not set");
  // "Sonnet" speaks for itself; "Off" does not.
  const known = setting.category === "model" || setting.category === "mode";
  return (
    <Menu
      label={known ? value : `${setting.name}: ${value}`}
      hint={known ? setting.name : undefined}
      disabled={disabled}
      items={setting.choices.map((choice) => ({
        id: choice.value,
        label: choice.name,
        description: choice.description,
        chosen: choice.value === String(current),
        act: () => choose(choice.value),
      }))}
    />
  );
}
