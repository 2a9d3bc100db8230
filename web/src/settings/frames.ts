// A frame on one line, and in full.

import type { Frame } from "../protocol";

const ARROWS: Readonly<Record<string, string>> = { agent: "←", client: "→", host: "·" };
const MAX_LINE_CHARS = 200; // characters of a frame that fit on a line

export function frameLine(frame: Frame): string {
  const time = new Date(frame.at * 1000).toISOString().slice(11, 23);
  return `${time}  ${ARROWS[frame.origin] ?? frame.origin}  ${frame.kind}  ${frame.frame.slice(0, MAX_LINE_CHARS)}`;
}

export function frameText(frame: Frame): string {
  try {
    return JSON.stringify(JSON.parse(frame.frame), null, 2);
  } catch {
    return frame.frame; // not JSON
  }
}
