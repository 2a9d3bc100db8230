import type { SettingItem } from "../protocol";
import { useAttempt } from "../notice/notices";
import { ImportHistory } from "../start/ImportHistory";
import { useRequest } from "../store/client";
import { THEMES, THEME_NAMES, chooseTheme, useTheme } from "../theme";
import type { Theme } from "../theme";
import { Button } from "../ui/Button";
import { Field, SelectField } from "../ui/Field";
import { QueryStatus } from "./QueryStatus";
import { useQuery } from "./useQuery";

type Value = SettingItem["value"];

export function GeneralSettings() {
  return (
    <section aria-label="General">
      <ThemeField />
      <div className="settings-item">
        <ImportHistory />
      </div>
      <ServerSettings />
    </section>
  );
}

function ThemeField() {
  return (
    <div className="settings-item">
      <SelectField
        label="Theme"
        hint="Only on this device."
        value={useTheme()}
        options={THEMES.map((theme) => ({ value: theme, label: THEME_NAMES[theme] }))}
        onValueChange={(theme) => chooseTheme(theme as Theme)}
      />
    </div>
  );
}

function ServerSettings() {
  const ask = useRequest();
  const attempt = useAttempt();
  const [loaded, put] = useQuery(() => ask("settings.get", {}));
  if (loaded.kind !== "loaded") return <QueryStatus loaded={loaded} />;
  const { settings, home, version } = loaded.value;
  const set = async (name: string, value: Value) => {
    const answer = await attempt(ask("settings.set", { name, value }), `${name} was not changed`);
    if (answer !== null) put(answer);
  };
  return (
    <>
      <ul className="settings-list">
        {settings.map((setting) => (
          <li key={setting.name} className="settings-item">
            <Setting key={String(setting.value)} setting={setting} onSet={(value) => void set(setting.name, value)} />
            {setting.editable && setting.source !== null && (
              <Button
                look="quiet"
                onClick={() => void set(setting.name, null)}
                aria-label={`Reset ${nameOf(setting)} to its default`}
              >
                Reset
              </Button>
            )}
          </li>
        ))}
      </ul>
      <p className="hint">
        Dragoman {version}. Its files are in <code>{home}</code>
      </p>
    </>
  );
}

/** `start_timeout` as people write it. */
function nameOf({ name }: SettingItem): string {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function Setting({ setting, onSet }: { setting: SettingItem; onSet: (value: Value) => void }) {
  const hint = `${setting.description}${setting.source === null ? "" : ` · set by ${setting.source}`}`;
  if (!setting.editable) {
    return (
      <div>
        <h3>{nameOf(setting)}</h3>
        <p>
          <code>{String(setting.value ?? "not set")}</code>
        </p>
        <p className="hint">{hint}</p>
      </div>
    );
  }
  if (typeof setting.default === "boolean") {
    return (
      <label className="settings-check">
        <input type="checkbox" checked={setting.value === true} onChange={(event) => onSet(event.target.checked)} />
        <span>
          {nameOf(setting)}
          <small className="hint">{hint}</small>
        </span>
      </label>
    );
  }
  if (setting.choices.length > 0) {
    return (
      <SelectField
        label={nameOf(setting)}
        hint={hint}
        value={String(setting.value ?? "")}
        placeholder="not set"
        options={setting.choices.map((choice) => ({ value: choice, label: choice }))}
        onValueChange={onSet}
      />
    );
  }
  const number = typeof setting.default === "number";
  const keep = (text: string) => {
    if (text !== String(setting.value ?? "")) onSet(text === "" ? null : number ? Number(text) : text);
  };
  return (
    <Field
      label={nameOf(setting)}
      hint={hint}
      type={number ? "number" : "text"}
      step="any"
      defaultValue={String(setting.value ?? "")}
      onBlur={(event) => keep(event.target.value)}
      onKeyDown={(event) => {
        if (event.key === "Enter") event.currentTarget.blur();
      }}
    />
  );
}
