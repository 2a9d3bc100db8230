import { useState } from "react";

import type { Setting } from "../protocol";
import { useAttempt } from "../notice/notices";
import { useAsk } from "../store/client";

/** A setting of a session as the person wants it: shown at once, and taken back when the agent refuses it. */
export function useSetting(
  sessionId: string,
  setting: Setting,
): [string | boolean | null, (value: string | boolean) => void] {
  const ask = useAsk();
  const attempt = useAttempt();
  const [wanted, setWanted] = useState<string | boolean | null>(null);
  const choose = async (value: string | boolean) => {
    setWanted(value);
    const done = ask("session.set_option", { session_id: sessionId, option_id: setting.id, value });
    await attempt(done, `${setting.name} stays as it was`);
    // Either way the session itself now says what it is set to.
    setWanted(null);
  };
  return [wanted ?? setting.current, (value) => void choose(value)];
}
