import { Fragment } from "react";

import { Dialog } from "../ui/Dialog";

const APPLE = /Mac|iPhone|iPad/.test(navigator.userAgent);
export const COMMAND_KEY = APPLE ? "⌘" : "Ctrl ";

const KEYS: readonly (readonly [keys: readonly string[], does: string])[] = [
  [[`${COMMAND_KEY}K`], "Commands and sessions by name"],
  [["/"], "Search all sessions"],
  [["n"], "New session"],
  [["a"], "Show what needs you"],
  [["1", "…", "9"], "Choose that option of a request"],
  [["j", "k"], "Next and previous message"],
  [["o"], "Expand or collapse the selected item"],
  [["Enter"], "Send"],
  [["Shift Enter"], "New line"],
  [["@"], "Mention a file"],
  [["Esc", "Esc"], "Stop the agent"],
  [["?"], "Keyboard shortcuts"],
];

export function Shortcuts({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl className="shortcuts">
        {KEYS.map(([keys, does]) => (
          <Fragment key={does}>
            <dt>
              {keys.map((key, at) => (
                <Fragment key={at}>
                  {at > 0 && " "}
                  <kbd>{key}</kbd>
                </Fragment>
              ))}
            </dt>
            <dd>{does}</dd>
          </Fragment>
        ))}
      </dl>
    </Dialog>
  );
}
