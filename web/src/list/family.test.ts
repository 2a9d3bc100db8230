import { describe, expect, it } from "vitest";

import { SESSION } from "../dev/rowBuilder";
import { topLevelSessions } from "./family";

function ids(...pairs: readonly (readonly [string, string | null])[]): readonly string[] {
  return topLevelSessions(pairs.map(([id, parent]) => ({ ...SESSION, id, parent }))).map(({ id }) => id);
}

describe("the sessions that stand in the list", () => {
  it("leaves out sub-agents, and theirs", () => {
    expect(ids(["a", null], ["b", "a"], ["c", "b"])).toEqual(["a"]);
  });

  it("has a sub-agent whose session is not here", () => {
    expect(ids(["b", "gone"])).toEqual(["b"]);
  });

  it("has sessions that claim to be each other's sub-agents", () => {
    expect(ids(["a", "b"], ["b", "a"], ["c", "c"])).toEqual(["a", "b", "c"]);
  });
});
