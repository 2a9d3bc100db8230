import { Fragment } from "react";

import { Dialog } from "../ui/Dialog";

const APPLE = /Mac|iPhone|iPad/.test(navigator.userAgent);
export const COMMAND_KEY = APPLE ? "⌘" : "Ctrl ";

const KEYS: readonly (readonly [keys: readonly string[], does: string])[] = [
  [[`${COMMAND_KEY}K`], "Commands and sessions by name"],
  [["/"], "Search all sessions"],
  [["n"], "New session"],
  [["a"], "Answer what waits for you"],
  [["1", "…", "9"], "Take that option of a question"],
  [["j", "k"], "Next and previous message"],
  [["o"], "Open or fold what is chosen"],
  [["Enter"], "Send what you wrote"],
  [["Shift Enter"], "A new line"],
  [["@"], "Name a file"],
  [["Esc", "Esc"], "Stop the agent"],
  [["?"], "These keys"],
];

export function Shortcuts({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
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
