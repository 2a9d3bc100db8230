import type { RefObject } from "react";

import { COMMAND_KEY } from "../palette/Shortcuts";
import type { Route } from "../route";
import { Button } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { Link } from "../ui/Link";
import { SessionList } from "./SessionList";

interface Props {
  route: Route;
  searchField: RefObject<HTMLInputElement | null>;
  onPalette: () => void;
}

/** The left column. */
export function Sidebar({ route, searchField, onPalette }: Props) {
  return (
    <aside className="sidebar" aria-label="Sessions and settings">
      <div className="sidebar-top">
        <Link to={{ view: "home" }} className="sidebar-name">
          dragoman
        </Link>
        <Button
          look="quiet"
          className="sidebar-keys"
          onClick={onPalette}
          aria-label={`Commands, ${COMMAND_KEY}K`}
          title="Commands"
        >
          <kbd>{COMMAND_KEY}K</kbd>
        </Button>
        <Link to={{ view: "new" }} className="button quiet icon-only" aria-label="New session" title="New session">
          <Icon name="add" />
        </Link>
      </div>
      <SessionList chosen={route.view === "session" ? route.id : null} searchField={searchField} />
      <div className="sidebar-foot">
        <Link
          to={{ view: "settings", tab: "agents" }}
          className="button quiet"
          aria-current={route.view === "settings" ? "page" : undefined}
        >
          <Icon name="gear" /> Settings
        </Link>
      </div>
    </aside>
  );
}
