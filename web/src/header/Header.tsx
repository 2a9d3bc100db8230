import type { Live, SessionItem, State } from "../protocol";
import { IconButton } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { Menu } from "../ui/Menu";
import { StateDot } from "../ui/StateDot";
import { STATE_WORDS, stateOf } from "../ui/state";
import { folderOf } from "../ui/words";
import { SettingPicker } from "./SettingPicker";
import { Title } from "./Title";
import type { SessionActions } from "./useSessionActions";
import "./header.css";

interface Props {
  session: SessionItem;
  live: Live;
  state: State;
  actions: SessionActions;
  /** Shows or hides what is beside the conversation; null where there is no such place. */
  beside: { open: boolean; toggle: () => void } | null;
  /** Something else takes its part of the screen. */
  narrow: boolean;
  /** What the token allows: with `view` nothing can be changed. */
  editable: boolean;
}

const BESIDE_THE_TITLE = 2; // settings that leave a title its room

/** Above the conversation: what it is called, who is talking, how it stands, and what can be done. */
export function Header({ session, live, state, actions, beside, narrow, editable }: Props) {
  const shown = stateOf({ ...live, waiting: session.waiting, run_status: session.run_status });
  const able = editable && live.connection === "connected";
  return (
    <header className={narrow || state.settings.length > BESIDE_THE_TITLE ? "header tall" : "header"}>
      <div className="header-what">
        <Title session={session} editable={editable} />
        <p className="header-where" title={session.cwd}>
          {session.agent} · {folderOf(session.cwd)}
        </p>
      </div>
      <div className="header-settings">
        {state.settings.map((setting) => (
          <SettingPicker key={setting.id} sessionId={session.id} setting={setting} disabled={!able} />
        ))}
      </div>
      <p className="header-state" title={live.reason}>
        <StateDot state={shown} />
        <span aria-hidden="true">{STATE_WORDS[shown]}</span>
      </p>
      {beside !== null && (
        <IconButton icon="panel" label="Changes, plan and details" aria-pressed={beside.open} onClick={beside.toggle} />
      )}
      {editable && (
        <Menu label="What can be done with this session" items={actions.items}>
          <Icon name="more" />
        </Menu>
      )}
      {actions.dialog}
    </header>
  );
}
