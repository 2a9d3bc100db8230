import { use } from "react";

import { useStore } from "../store/client";
import { SETTINGS_TABS, navigate } from "../route";
import { byReadiness } from "../start/agents";
import { THEMES, THEME_NAMES, chooseTheme, useTheme } from "../theme";
import { baseName, sessionTitle } from "../ui/format";
import type { PaletteItem } from "./commands";
import { ViewCommandsContext } from "./viewCommands";

/** Commands, those of the view that is shown among them, then sessions, the latest first. */
export function usePaletteItems(search: () => void, keys: () => void): readonly PaletteItem[] {
  const list = useStore((known) => known.list);
  const agents = useStore((known) => known.agents);
  const waiting = useStore((known) => known.waiting?.length ?? 0);
  const theme = useTheme();
  const offered = use(ViewCommandsContext);
  const commands: PaletteItem[] = [
    { id: "new", label: "New session", detail: "n", act: () => navigate({ view: "new" }) },
    { id: "needs", label: "Needs you", detail: `a · ${waiting}`, act: () => navigate({ view: "needs" }) },
    { id: "search", label: "Search all sessions", detail: "/", act: search },
    { id: "keys", label: "Keyboard shortcuts", detail: "?", act: keys },
    // Not before these: Enter alone must do no harm.
    ...offered.current,
  ];
  for (const tab of SETTINGS_TABS) {
    commands.push({
      id: `settings ${tab}`,
      label: `Settings: ${tab}`,
      detail: "",
      act: () => navigate({ view: "settings", tab }),
    });
  }
  commands.push({
    id: "theme",
    label: "Theme…",
    detail: THEME_NAMES[theme],
    inside: THEMES.map((one) => ({
      id: one,
      label: THEME_NAMES[one],
      detail: one === theme ? "current" : "",
      act: () => chooseTheme(one),
    })),
  });
  for (const agent of byReadiness(agents ?? []).filter(({ state }) => state !== "missing")) {
    commands.push({
      id: `agent ${agent.id}`,
      label: `New session with ${agent.name}`,
      detail: agent.version ?? "",
      act: () => navigate({ view: "new", agent: agent.id }),
    });
  }
  const sessions = (list?.sessions ?? [])
    .filter((session) => !session.is_sub_agent)
    .map((session) => ({
      id: `session ${session.id}`,
      label: sessionTitle(session),
      detail: `${baseName(session.cwd)} · ${session.agent}`,
      act: () => navigate({ view: "session", id: session.id }),
    }));
  return [...commands, ...sessions];
}
