import { useEffect, useState } from "react";

import { copyText } from "./clipboard";

/** Copies a text, and says so for a moment. `text` is asked for only then. */
export function CopyButton({ text, label = "Copy", name }: { text: () => string; label?: string; name: string }) {
  const [said, setSaid] = useState<string | null>(null);
  useEffect(() => {
    if (said === null) return;
    const timer = setTimeout(() => setSaid(null), 1500);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async () => setSaid((await copyText(text())) ? "Copied" : "Not copied: the browser refused");
  return (
    <button
      type="button"
      className="small-button copy"
      aria-label={said ?? name}
      title={name}
      onClick={() => void copy()}
    >
      {said ?? label}
    </button>
  );
}
