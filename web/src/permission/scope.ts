import { createContext, useContext } from "react";

import type { Scope } from "../protocol";

/** The scope of this browser's token. */
export const ScopeContext = createContext<Scope>("admin");

/** What the scope allows: answering requests, and saving rules. */
export function useScopeRights(): { canAnswer: boolean; canAddRules: boolean } {
  const scope = useContext(ScopeContext);
  return { canAnswer: scope !== "view", canAddRules: scope === "admin" };
}
