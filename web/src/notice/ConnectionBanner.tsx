import { useEffect, useState } from "react";

import { useClient, useConnection } from "../store/client";
import { Button } from "../ui/Button";
import { CopyLine } from "../ui/CopyLine";

const BANNER_DELAY_MS = 1_500; // ms: a page that was reloaded, or a server that restarts, need not worry anyone

/** Tells that the server cannot be reached and the page shows an old state; nothing while connected. */
export function ConnectionBanner() {
  const { socket } = useClient();
  const link = useConnection();
  const now = useNow(link.kind === "lost");
  switch (link.kind) {
    case "open":
      return null;
    case "connecting":
      return null;
    case "lost": {
      if (now - link.since < BANNER_DELAY_MS) return null;
      const wait = Math.max(0, Math.ceil((link.retryAt - now) / 1000));
      const since = new Date(link.since).toLocaleTimeString(undefined, { timeStyle: "short" });
      return (
        <div className="banner" role="status">
          <p>
            <strong>Cannot reach the server.</strong> You see the state of {since}. Nothing is lost.{" "}
            <span aria-hidden="true">{wait > 0 ? `Retrying in ${wait} s.` : "Retrying…"}</span>
          </p>
          <Button onClick={socket.connect}>Retry now</Button>
        </div>
      );
    }
    case "signed_out":
      return (
        <div className="banner" role="alert">
          <p>
            <strong>This browser is not signed in.</strong> Open the link that `dragoman serve` printed, or create a new
            one:
          </p>
          <CopyLine text="dragoman token link" />
          <Button onClick={socket.connect}>Try again</Button>
        </div>
      );
    case "outdated":
      return (
        <div className="banner" role="alert">
          <p>
            <strong>The server was updated to {link.version}.</strong> Reload the page to use it.
          </p>
          <Button look="primary" onClick={() => location.reload()}>
            Reload
          </Button>
        </div>
      );
  }
}

/** The time in ms, once a second while it is needed. */
function useNow(ticking: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!ticking) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [ticking]);
  return now;
}
