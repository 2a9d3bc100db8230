import { useState } from "react";

import type { Setting } from "../protocol";
import { useAttempt } from "../notice/notices";
import { useRequest } from "../store/client";

type Value = string | boolean;
export type Choose = (setting: Setting, value: Value) => void;

/** The settings of a session as the person wants them: shown at once, and taken back where the agent refuses. */
export function useSettings(sessionId: string, settings: readonly Setting[]): [readonly Setting[], Choose] {
  const ask = useRequest();
  const attempt = useAttempt();
  const [wanted, setWanted] = useState<ReadonlyMap<string, Value>>(new Map());
  const choose = async ({ id, name }: Setting, value: Value) => {
    setWanted((before) => new Map(before).set(id, value));
    await attempt(
      ask("session.set_option", { session_id: sessionId, option_id: id, value }),
      `${name} was not changed`,
    );
    // Either way the session itself now says what it is set to, unless something else was chosen meanwhile.
    setWanted((before) => new Map([...before].filter(([other, one]) => other !== id || one !== value)));
  };
  const shown = settings.map((setting) => ({ ...setting, current: wanted.get(setting.id) ?? setting.current }));
  return [shown, (setting, value) => void choose(setting, value)];
}
