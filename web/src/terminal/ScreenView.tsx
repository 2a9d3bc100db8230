import { Fragment, memo, useEffect, useLayoutEffect, useRef, useState } from "react";

import { hasEscapes, plain } from "./plain";
import type { Line, Span } from "./screen";
import "./terminal.css";

/** Spans that are drawn at most: a terminal full of colours must not fill the page with nodes. */
const MOST_SPANS = 600;

/** Lines of a terminal. Keeps to the end while the reader is at the end. */
export const ScreenView = memo(function ScreenView({ lines, name }: { lines: readonly Line[]; name: string }) {
  const place = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    const element = place.current;
    if (element && atEnd.current) element.scrollTop = element.scrollHeight;
  }, [lines]);
  let spans = 0;
  return (
    <pre
      ref={place}
      className="screen"
      tabIndex={0}
      aria-label={name}
      onScroll={({ currentTarget: at }) => {
        atEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < 8;
      }}
    >
      {lines.map((line, index) => {
        spans += line.length;
        const coloured = spans <= MOST_SPANS || lines.length - index < 60;
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

function spanNode({ text, look }: Span, key: number) {
  if (look === null) return text;
  const names: string[] = [];
  const style: { color?: string; backgroundColor?: string } = {};
  if (typeof look.front === "number") names.push(`front-${look.front}`);
  else if (look.front !== null) style.color = look.front;
  if (typeof look.back === "number") names.push(`back-${look.back}`);
  else if (look.back !== null) style.backgroundColor = look.back;
  for (const name of ["bold", "dim", "italic", "underline"] as const) if (look[name]) names.push(name);
  return (
    <span key={key} className={names.join(" ")} style={style}>
      {text}
    </span>
  );
}

/** A text that a program wrote: with its colours where it has any. */
export const Output = memo(function Output({ text, name = "output" }: { text: string; name?: string }) {
  const [drawn, setDrawn] = useState<{ text: string; lines: readonly Line[] } | null>(null);
  const escapes = hasEscapes(text);
  useEffect(() => {
    if (!escapes) return;
    let wanted = true;
    void drawnLines(text).then((lines) => {
      if (wanted) setDrawn({ text, lines });
    });
    return () => {
      wanted = false;
    };
  }, [text, escapes]);
  if (escapes && drawn?.text === text) return <ScreenView lines={drawn.lines} name={name} />;
  return (
    <pre className="screen" tabIndex={0} aria-label={name}>
      {plain(text)}
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
