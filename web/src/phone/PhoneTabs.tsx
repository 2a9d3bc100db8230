import { useEffect, useState } from "react";

import { useStore } from "../store/client";
import type { Route } from "../route";
import { Icon } from "../ui/Icon";
import type { IconName } from "../ui/Icon";
import { Link } from "../ui/Link";
import { useSwipe } from "./swipe";
import "./phone.css";

/** On a phone, at the foot of the screen: one pane at a time. */
export function PhoneTabs({ route }: { route: Route }) {
  const waiting = useStore((known) => known.waiting?.length ?? 0);
  const last = useLastSession(route);
  useSwipe(route, last);
  return (
    <nav className="phone-tabs" aria-label="Views">
      <Tab to={{ view: "needs" }} icon="needs" name="Needs you" here={route.view === "needs"} count={waiting} />
      <Tab to={{ view: "home" }} icon="list" name="Sessions" here={route.view === "home"} />
      {last !== null && (
        <>
          <Tab
            to={{ view: "session", id: last }}
            icon="talk"
            name="Chat"
            here={route.view === "session" && !route.beside}
          />
          <Tab
            to={{ view: "session", id: last, beside: true }}
            icon="panel"
            name="Changes"
            here={route.view === "session" && route.beside === true}
          />
        </>
      )}
      <Tab to={{ view: "settings", tab: "agents" }} icon="gear" name="Settings" here={route.view === "settings"} />
    </nav>
  );
}

interface TabProps {
  to: Route;
  icon: IconName;
  name: string;
  here: boolean;
  count?: number;
}

function Tab({ to, icon, name, here, count = 0 }: TabProps) {
  return (
    <Link to={to} aria-current={here ? "page" : undefined}>
      <span className="phone-icon">
        <Icon name={icon} />
        {count > 0 && <span className="phone-count">{count}</span>}
      </span>
      {name}
    </Link>
  );
}

/** The session that was shown last, to come back to. */
function useLastSession(route: Route): string | null {
  const [last, setLast] = useState<string | null>(null);
  const id = route.view === "session" ? route.id : null;
  useEffect(() => {
    if (id !== null) setLast(id);
  }, [id]);
  return id ?? last;
}
