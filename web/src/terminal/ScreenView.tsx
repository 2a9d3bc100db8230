import { Fragment, memo, useEffect, useLayoutEffect, useRef, useState } from "react";

import { hasEscapes, stripEscapes } from "./escapes";
import type { Line, Span } from "./screen";
import "./terminal.css";

/** Coloured spans at most: a colourful terminal must not fill the page with nodes. */
const MAX_SPANS = 600;

/** The lines of a terminal. Follows the end while the reader is there. */
export const ScreenView = memo(function ScreenView({ lines, name }: { lines: readonly Line[]; name: string }) {
  const preRef = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    const element = preRef.current;
    if (element && atEnd.current) element.scrollTop = element.scrollHeight;
  }, [lines]);
  let spans = 0;
  return (
    <pre
      ref={preRef}
      className="screen"
      tabIndex={0}
      role="group"
      aria-label={name}
      onScroll={({ currentTarget: at }) => {
        atEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < 8;
      }}
    >
      {lines.map((line, index) => {
        spans += line.length;
        const coloured = spans <= MAX_SPANS || lines.length - index < 60;
        return (
          <Fragment key={index}>
            {coloured ? line.map(spanNode) : line.map((span) => span.text).join("")}
            {"\n"}
          </Fragment>
        );
      })}
    </pre>
  );
});

function spanNode({ text, style }: Span, key: number) {
  if (style === null) return text;
  const names: string[] = [];
  const inline: { color?: string; backgroundColor?: string } = {};
  if (typeof style.front === "number") names.push(`front-${style.front}`);
  else if (style.front !== null) inline.color = style.front;
  if (typeof style.back === "number") names.push(`back-${style.back}`);
  else if (style.back !== null) inline.backgroundColor = style.back;
  for (const name of ["bold", "dim", "italic", "underline"] as const) if (style[name]) names.push(name);
  return (
    <span key={key} className={names.join(" ")} style={inline}>
      {text}
    </span>
  );
}

/** The output of a program, with its colours. */
export const Output = memo(function Output({ text, name = "output" }: { text: string; name?: string }) {
  const [drawn, setDrawn] = useState<{ text: string; lines: readonly Line[] } | null>(null);
  const escapes = hasEscapes(text);
  useEffect(() => {
    if (!escapes) return;
    let isCurrent = true;
    void drawnLines(text).then((lines) => {
      if (isCurrent) setDrawn({ text, lines });
    });
    return () => {
      isCurrent = false;
    };
  }, [text, escapes]);
  if (escapes && drawn?.text === text) return <ScreenView lines={drawn.lines} name={name} />;
  return (
    <pre className="screen" tabIndex={0} role="group" aria-label={name}>
      {stripEscapes(text)}
    </pre>
  );
});

async function drawnLines(text: string): Promise<readonly Line[]> {
  const { Screen } = await import("./screen");
  const screen = new Screen();
  await screen.write(text);
  const lines = screen.lines();
  screen.close();
  return lines;
}
