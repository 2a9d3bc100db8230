// The screen of a terminal as lines of styled text. xterm.js interprets the escape sequences; titles, links, the
// clipboard and other requests are ignored: only text and its style remain.

import { Terminal } from "@xterm/headless/lib-headless/xterm-headless.mjs";

/** More than a person scrolls back through here; the record has it all. */
const SCROLLBACK_LINES = 2000;

export interface TextStyle {
  /** 0–15: the terminal's own sixteen colours. Otherwise as CSS. */
  readonly front: number | string | null;
  readonly back: number | string | null;
  readonly bold: boolean;
  readonly dim: boolean;
  readonly italic: boolean;
  readonly underline: boolean;
}

export interface Span {
  readonly text: string;
  readonly style: TextStyle | null;
}

export type Line = readonly Span[];

type Buffer = Terminal["buffer"]["active"];
type Cell = ReturnType<Buffer["getNullCell"]>;

export class Screen {
  private readonly terminal: Terminal;

  constructor(columns = 120, rows = 30) {
    // Programs that write to a pipe end their lines without a carriage return.
    this.terminal = new Terminal({
      cols: columns,
      rows,
      scrollback: SCROLLBACK_LINES,
      convertEol: true,
      allowProposedApi: true,
    });
  }

  /** Resolves when it is on the screen. */
  write(data: string | Uint8Array): Promise<void> {
    return new Promise((resolve) => this.terminal.write(data, resolve));
  }

  /** The last lines that have something on them. Lines that were broken at the edge are whole again. */
  lines(most = SCROLLBACK_LINES): readonly Line[] {
    const buffer = this.terminal.buffer.active;
    const cell = buffer.getNullCell();
    const lines: Line[] = [];
    let end = buffer.length;
    while (end > 0 && buffer.getLine(end - 1)?.translateToString(true) === "") end--;
    for (let at = Math.max(0, end - most); at < end; at++) {
      const line = buffer.getLine(at);
      if (!line) continue;
      const spans = spansOf(line, cell);
      const before = line.isWrapped ? lines.pop() : undefined;
      lines.push(before ? [...before, ...spans] : spans);
    }
    return lines;
  }

  close(): void {
    this.terminal.dispose();
  }
}

function spansOf(line: NonNullable<ReturnType<Buffer["getLine"]>>, cell: Cell): Span[] {
  const spans: Span[] = [];
  let text = "";
  let style: TextStyle | null = null;
  let key = "";
  for (let column = 0; column < line.length; column++) {
    line.getCell(column, cell);
    if (cell.getWidth() === 0) continue;
    const next = styleOf(cell);
    const nextKey = next ? JSON.stringify(next) : "";
    if (nextKey !== key && text !== "") {
      spans.push({ text, style });
      text = "";
    }
    key = nextKey;
    style = next;
    text += cell.getChars() || " ";
  }
  const rest = style === null ? text.trimEnd() : text;
  if (rest !== "") spans.push({ text: rest, style });
  return spans;
}

function styleOf(cell: Cell): TextStyle | null {
  if (cell.isAttributeDefault()) return null;
  let front = colour(cell.isFgDefault(), cell.isFgRGB(), cell.getFgColor());
  let back = colour(cell.isBgDefault(), cell.isBgRGB(), cell.getBgColor());
  if (cell.isInverse()) [front, back] = [back ?? "var(--surface)", front ?? "var(--text)"];
  const style: TextStyle = {
    front,
    back,
    bold: cell.isBold() !== 0,
    dim: cell.isDim() !== 0,
    italic: cell.isItalic() !== 0,
    underline: cell.isUnderline() !== 0,
  };
  const plain =
    style.front === null && style.back === null && !style.bold && !style.dim && !style.italic && !style.underline;
  return plain ? null : style;
}

function colour(none: boolean, rgb: boolean, value: number): number | string | null {
  if (none) return null;
  if (rgb) return `#${value.toString(16).padStart(6, "0")}`;
  if (value < 16) return value;
  if (value >= 232) return grey((value - 232) * 10 + 8);
  const steps = [0, 95, 135, 175, 215, 255];
  const at = value - 16;
  const part = (index: number) => steps[index % 6] ?? 0;
  return `rgb(${part(Math.floor(at / 36))} ${part(Math.floor(at / 6))} ${part(at)})`;
}

function grey(level: number): string {
  return `rgb(${level} ${level} ${level})`;
}
