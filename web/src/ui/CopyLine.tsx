import { useState } from "react";

import { IconButton } from "./Button";

/** A line to be run in a terminal, or a secret that is shown once, with a button that copies it. */
export function CopyLine({ text, what = "Copy" }: { text: string; what?: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
  };
  return (
    <div className="copy-line">
      <code tabIndex={0}>{text}</code>
      <IconButton icon={copied ? "check" : "copy"} label={copied ? "Copied" : what} onClick={() => void copy()} />
    </div>
  );
}
