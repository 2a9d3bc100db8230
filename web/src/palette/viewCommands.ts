// The commands that the current view adds to the palette.

import { createContext, use, useEffect } from "react";
import type { RefObject } from "react";

import type { PaletteItem } from "./commands";

type ViewCommands = RefObject<readonly PaletteItem[]>;

/** A ref, read when the palette opens: the commands change often and need no rendering. */
export const ViewCommandsContext = createContext<ViewCommands>({ current: [] });

export function useViewCommands(items: readonly PaletteItem[]): void {
  const offered = use(ViewCommandsContext);
  useEffect(() => {
    offered.current = items;
    return () => {
      offered.current = [];
    };
  });
}
