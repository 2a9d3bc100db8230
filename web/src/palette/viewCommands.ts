// What the view that is shown adds to the palette.

import { createContext, use, useEffect } from "react";
import type { RefObject } from "react";

import type { PaletteItem } from "./commands";

type ViewCommands = RefObject<readonly PaletteItem[]>;

/** Looked into when the palette opens: what a view offers changes often, and nobody need be told. */
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
