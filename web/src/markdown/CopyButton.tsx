import { useEffect, useState } from "react";

import { copyText } from "./clipboard";

/** Copies a text, and says so for a moment. `text` is asked for only then. */
export function CopyButton({ text, label = "Copy", name }: { text: () => string; label?: string; name: string }) {
  const [status, setStatus] = useState<string | null>(null);
  useEffect(() => {
    if (status === null) return;
    const timer = setTimeout(() => setStatus(null), 1500);
    return () => clearTimeout(timer);
  }, [status]);
  const copy = async () => setStatus((await copyText(text())) ? "Copied" : "Could not copy");
  return (
    <button
      type="button"
      className="small-button copy"
      aria-label={status ?? name}
      title={name}
      onClick={() => void copy()}
    >
      {status ?? label}
    </button>
  );
}
