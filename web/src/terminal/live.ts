// Follows a running terminal: its bytes go to a screen, which is rendered once per frame.

import { useEffect, useState } from "react";

import type { Bridge } from "../conversation/bridge";
import type { TerminalSnapshot, TerminalUpdate } from "../protocol";
import { bytesOf } from "./escapes";
import type { Line } from "./screen";

export interface LiveTerminal {
  readonly lines: readonly Line[];
  readonly typable: boolean;
  readonly ended: boolean;
}

/** Lines that a live view draws. */
const MAX_LINES = 300;

export function useLiveTerminal(bridge: Bridge, sessionId: string, terminalId: string | null): LiveTerminal | null {
  const [shown, setShown] = useState<LiveTerminal | null>(null);
  useEffect(() => {
    if (terminalId === null) return;
    const follower = new TerminalFollower(setShown);
    const stop = bridge.subscribe("terminal", `${sessionId}/${terminalId}`, {
      onMessage: (message) => {
        if (message.type !== "ended" && message.stream === "terminal") follower.receive(message);
      },
    });
    return () => {
      stop();
      follower.close();
    };
  }, [bridge, sessionId, terminalId]);
  return shown;
}

class TerminalFollower {
  private screen: Promise<import("./screen").Screen> | null = null;
  private offset = 0;
  private typable = false;
  private ended = false;
  private frame: number | null = null;
  private closed = false;

  constructor(private readonly show: (terminal: LiveTerminal) => void) {}

  receive(message: TerminalSnapshot | TerminalUpdate): void {
    if (message.type === "snapshot") {
      // A snapshot that continues at our offset adds to the screen; any other starts a new one.
      if (this.screen === null || message.offset !== this.offset) this.screen = newScreen();
      this.typable = message.accepts_input;
    }
    const bytes = bytesOf(message.data);
    this.offset = message.offset + bytes.length;
    this.ended = message.ended;
    this.screen ??= newScreen();
    void this.screen.then((ready) => ready.write(bytes)).then(() => this.drawSoon());
  }

  close(): void {
    this.closed = true;
    if (this.frame !== null) cancelAnimationFrame(this.frame);
    void this.screen?.then((screen) => screen.close());
  }

  private drawSoon(): void {
    if (this.closed) return;
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      void this.screen?.then((screen) => {
        if (!this.closed) this.show({ lines: screen.lines(MAX_LINES), typable: this.typable, ended: this.ended });
      });
    });
  }
}

async function newScreen(): Promise<import("./screen").Screen> {
  const { Screen } = await import("./screen");
  return new Screen();
}
