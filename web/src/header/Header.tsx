import type { SessionState, SessionItem, Setting } from "../protocol";
import { IconButton } from "../ui/Button";
import { Menu } from "../ui/Menu";
import { StateDot } from "../ui/StateDot";
import { STATE_LABELS, stateOf } from "../ui/state";
import { baseName } from "../ui/format";
import { FoldedSettings, SettingPicker } from "./SettingPicker";
import { Title } from "./Title";
import { arrangeSettings, settingValueLabel } from "./settingsLayout";
import type { SessionActions } from "./useSessionActions";
import type { Choose } from "./useSettings";
import "./header.css";

interface Props {
  session: SessionItem;
  live: SessionState;
  settings: readonly Setting[];
  changeable: boolean;
  onChoose: Choose;
  actions: SessionActions;
  /** Toggles the side panel; null on a phone, where it is a view of its own. */
  beside: { open: boolean; toggle: () => void } | null;
  /** The settings go below the title. */
  narrow: boolean;
  /** How many of them are shown; the others are folded. */
  room: number;
  /** False for a token with scope `view`. */
  editable: boolean;
}

/** The header of a session: title, agent, settings, state and actions. */
export function Header(props: Props) {
  const { session, live, settings, changeable, onChoose, actions, beside, narrow, room, editable } = props;
  const shown = stateOf({ ...live, waiting: session.pending, run_status: session.run_status });
  const { shown: pickers, folded } = arrangeSettings(settings, room);
  return (
    <header className={narrow ? "header tall" : "header"}>
      <div className="header-what">
        <Title session={session} editable={editable} editing={actions.renaming} onEditing={actions.setRenaming} />
        <p className="header-where" title={session.cwd}>
          {session.agent} · {baseName(session.cwd)}
        </p>
      </div>
      <div className="header-settings">
        {pickers.map((setting) => (
          <SettingPicker key={setting.id} setting={setting} disabled={!changeable} onChoose={onChoose} />
        ))}
        {folded.length > 0 && (
          <FoldedSettings
            value={pickers.length > 0 ? null : folded.slice(0, 2).map(settingValueLabel).join(" · ")}
            settings={folded}
            disabled={!changeable}
            onChoose={onChoose}
          />
        )}
      </div>
      <p className="header-state" title={live.reason}>
        <StateDot state={shown} />
        <span aria-hidden="true">{STATE_LABELS[shown]}</span>
      </p>
      {beside !== null && (
        <IconButton
          icon="panel"
          label="Side panel: changes, plan, details"
          aria-pressed={beside.open}
          onClick={beside.toggle}
        />
      )}
      {editable && <Menu icon="more" label="Session actions" items={actions.items} />}
      {actions.dialog}
    </header>
  );
}
