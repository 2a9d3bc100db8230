import { createContext, useContext } from "react";

import type { Scope } from "../protocol";

/** What this client's token allows. */
export const ScopeContext = createContext<Scope>("admin");

/** Whether what is asked may be answered here, and whether that may become a rule. */
export function useScopeRights(): { canAnswer: boolean; canAddRules: boolean } {
  const scope = useContext(ScopeContext);
  return { canAnswer: scope !== "view", canAddRules: scope === "admin" };
}
