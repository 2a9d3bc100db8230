import type { ReactNode } from "react";

import { SETTINGS_TABS } from "../route";
import type { SettingsTab } from "../route";
import { Link } from "../ui/Link";
import { AgentSettings } from "./AgentSettings";
import { DeviceSettings } from "./DeviceSettings";
import { Diagnostics } from "./Diagnostics";
import { GeneralSettings } from "./GeneralSettings";
import { RuleSettings } from "./RuleSettings";
import "./settings.css";

const TAB_LABELS: Record<SettingsTab, string> = {
  agents: "Agents",
  rules: "Rules",
  devices: "Devices",
  general: "General",
  diagnostics: "Diagnostics",
};

export function Settings({ tab, session }: { tab: SettingsTab; session?: string }) {
  return (
    <div className="settings">
      <h1>Settings</h1>
      <nav aria-label="Settings" className="settings-tabs">
        {SETTINGS_TABS.map((name) => (
          <Link key={name} to={{ view: "settings", tab: name }} aria-current={name === tab ? "page" : undefined}>
            {TAB_LABELS[name]}
          </Link>
        ))}
      </nav>
      {tabContent(tab, session)}
    </div>
  );
}

function tabContent(tab: SettingsTab, session: string | undefined): ReactNode {
  switch (tab) {
    case "agents":
      return <AgentSettings />;
    case "rules":
      return <RuleSettings />;
    case "devices":
      return <DeviceSettings />;
    case "general":
      return <GeneralSettings />;
    case "diagnostics":
      return <Diagnostics session={session ?? null} />;
  }
}
