import { memo, useEffect, useState } from "react";

import { CopyButton } from "./CopyButton";
import type { HighlightSpan } from "./highlight";

/** Longer code stays in one colour: each coloured word is a node of the page. */
const MAX_HIGHLIGHT_CHARS = 12_000;
const MAX_HIGHLIGHT_SPANS = 900;
/** More is shown when it is asked for; while it is still being written, the end of it is shown. */
const MAX_SHOWN_CHARS = 60_000;

interface Props {
  code: string;
  language: string;
  /** False while its closing fence has not come: it is not coloured until then, and keeps its place when it is. */
  closed: boolean;
}

export const CodeBlock = memo(function CodeBlock({ code, language, closed }: Props) {
  const [all, setAll] = useState(false);
  const stretches = useHighlight(code, language, closed);
  const shown =
    all || code.length <= MAX_SHOWN_CHARS
      ? code
      : closed
        ? code.slice(0, MAX_SHOWN_CHARS)
        : code.slice(-MAX_SHOWN_CHARS);
  return (
    <figure className="code">
      <figcaption>
        <span>{language || "text"}</span>
        <CopyButton text={() => code} name="Copy code" />
      </figcaption>
      {/* Focusable, so that the keyboard can scroll it. */}
      <pre tabIndex={0} role="group" aria-label={language ? `${language} code` : "code"}>
        <code>{stretches ? stretches.map(spanNode) : shown}</code>
      </pre>
      {shown.length < code.length && closed && (
        <button type="button" className="small-button" onClick={() => setAll(true)}>
          Show all
        </button>
      )}
    </figure>
  );
});

function spanNode({ text, name }: HighlightSpan, index: number) {
  return name === null ? (
    text
  ) : (
    <span key={index} className={name}>
      {text}
    </span>
  );
}

export function useHighlight(code: string, language: string, wanted: boolean): readonly HighlightSpan[] | null {
  const [done, setDone] = useState<{ code: string; stretches: readonly HighlightSpan[] | null } | null>(null);
  const use = wanted && language !== "" && code.length <= MAX_HIGHLIGHT_CHARS;
  useEffect(() => {
    if (!use) return;
    let current = true;
    void import("./highlight").then(({ highlight }) => {
      const stretches = current ? highlight(code, language) : null;
      if (stretches && stretches.length <= MAX_HIGHLIGHT_SPANS) setDone({ code, stretches });
    });
    return () => {
      current = false;
    };
  }, [code, language, use]);
  return use && done?.code === code ? done.stretches : null;
}
