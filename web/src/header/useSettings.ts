import { useState } from "react";

import type { Setting } from "../protocol";
import { useAttempt } from "../notice/notices";
import { useRequest } from "../store/client";

type Value = string | boolean;
export type Choose = (setting: Setting, value: Value) => void;

/** The settings of a session with the user's choices applied at once; a refused choice is reverted. */
export function useSettings(sessionId: string, settings: readonly Setting[]): [readonly Setting[], Choose] {
  const ask = useRequest();
  const attempt = useAttempt();
  const [chosen, setChosen] = useState<ReadonlyMap<string, Value>>(new Map());
  const choose = async ({ id, name }: Setting, value: Value) => {
    setChosen((before) => new Map(before).set(id, value));
    await attempt(
      ask("session.set_option", { session_id: sessionId, option_id: id, value }),
      `${name} was not changed`,
    );
    // The session now reports its value, unless another one was chosen meanwhile.
    setChosen((before) => new Map([...before].filter(([other, one]) => other !== id || one !== value)));
  };
  const shown = settings.map((setting) => ({ ...setting, current: chosen.get(setting.id) ?? setting.current }));
  return [shown, (setting, value) => void choose(setting, value)];
}
