// What the view that is shown adds to the palette.

import { createContext, use, useEffect } from "react";
import type { RefObject } from "react";

import type { PaletteItem } from "./commands";

type Offered = RefObject<readonly PaletteItem[]>;

/** Looked into when the palette opens: what a view offers changes often, and nobody need be told. */
export const OfferedContext = createContext<Offered>({ current: [] });

export function useOffer(items: readonly PaletteItem[]): void {
  const offered = use(OfferedContext);
  useEffect(() => {
    offered.current = items;
    return () => {
      offered.current = [];
    };
  });
}
