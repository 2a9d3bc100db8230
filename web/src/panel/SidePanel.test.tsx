// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, test } from "vitest";

import { render, FakeBridge, type Rendered } from "../dev/render";
import { LIVE, RowBuilder, SESSION, STATE } from "../dev/rowBuilder";
import type { ChangesSummary } from "../protocol";
import { SidePanel } from "./SidePanel";
import { FULLY_LOADED, useSessionChanges, type LoadedRange } from "./served";
import { usePanel } from "./usePanel";

let drawn: Rendered;
beforeEach(() => localStorage.clear());
afterEach(() => drawn.end());

function Beside({
  builder,
  bridge = new FakeBridge(ANSWERS),
  loaded = FULLY_LOADED,
}: {
  builder: RowBuilder;
  bridge?: FakeBridge;
  loaded?: LoadedRange;
}) {
  const panel = usePanel(SESSION.id);
  const changes = useSessionChanges(bridge, SESSION.id, builder.rows, loaded);
  return (
    <>
      <button type="button" onClick={() => panel.openFile("src/a.py", 2)}>
        open
      </button>
      <SidePanel
        bridge={bridge}
        session={SESSION}
        rows={builder.rows}
        live={LIVE}
        state={STATE}
        panel={panel}
        loaded={loaded}
        changes={changes}
      />
    </>
  );
}

const FILE = { path: "src/a.py", added: 1, removed: 1, created: false, changes: 1, position: 3 };
const CHANGES: ChangesSummary = {
  files: [{ ...FILE, path: "src/b.py", removed: 0, created: true, position: 4 }, FILE],
  more_files: 0,
  runs: [],
  terminals: [],
  more_terminals: 0,
};
const ANSWERS = {
  "session.changes": CHANGES,
  "session.diffs": { diffs: [{ type: "diff" as const, path: "any", old_text: "p\n", new_text: "q\n" }], more: 0 },
};

function changed(): RowBuilder {
  const builder = new RowBuilder();
  builder.run();
  builder.call("edit", "one", { content: [{ type: "diff", path: "src/a.py", old_text: "x\n", new_text: "y\n" }] });
  builder.call("edit", "two", { content: [{ type: "diff", path: "src/b.py", old_text: null, new_text: "z\n" }] });
  builder.plan([{ content: "Do it", priority: "high", status: "completed" }]);
  return builder;
}

test("it shows all changed files, or the chosen one", async () => {
  drawn = await render(<Beside builder={changed()} />);
  const regions = () =>
    [...drawn.container.querySelectorAll(".file-diffs")].map((region) => region.getAttribute("aria-label"));
  expect(regions()).toEqual(["src/b.py", "src/a.py"]);
  expect(drawn.container.querySelectorAll(".diff-box")).toHaveLength(2);
  await drawn.press("src/a.py+1−1");
  expect(regions()).toEqual(["src/a.py"]);
});

test("it remembers its tab for the session", async () => {
  const builder = changed();
  drawn = await render(<Beside builder={builder} />);
  await drawn.press("Plan");
  await drawn.end();
  drawn = await render(<Beside builder={builder} />);
  expect(drawn.container.querySelector("[aria-selected=true]")?.textContent).toBe("Plan");
  expect(drawn.container.textContent).toContain("1 of 1 done");
});

test("an opened file is read and shown at its line", async () => {
  const bridge = new FakeBridge({
    "files.read": { path: "src/a.py", text: "one\ntwo\nthree\n", line: 1, lines: 3, truncated: false },
  });
  drawn = await render(<Beside builder={new RowBuilder()} bridge={bridge} />);
  expect(drawn.container.querySelector("aside")).toBeNull();
  await drawn.press("open");
  expect(bridge.requests[0]?.fields).toMatchObject({ session_id: "s1", path: "src/a.py", line: 1 });
  expect(drawn.container.querySelector(".file-numbers")?.textContent).toBe("1\n2\n3");
  expect(drawn.container.querySelector<HTMLElement>(".file-mark")?.style.top).toBe("18px");
});

test("a file that cannot be read says why", async () => {
  drawn = await render(
    <Beside
      builder={new RowBuilder()}
      bridge={new FakeBridge({ "files.read": new Error("src/a.py is outside of the workspace.") })}
    />,
  );
  await drawn.press("open");
  expect(drawn.container.textContent).toContain("src/a.py is outside of the workspace.");
});

test("figures that were not reported are named as such", async () => {
  drawn = await render(<Beside builder={changed()} />);
  await drawn.press("Details");
  expect(drawn.container.textContent).toContain("Costnot reported");
});

test("it shows the files that the server lists, and requests the changes of the chosen one", async () => {
  const bridge = new FakeBridge(ANSWERS);
  drawn = await render(<Beside builder={changed()} bridge={bridge} loaded={{ more: true, before: 100 }} />);
  expect(drawn.container.textContent).toContain("2 files");
  expect(bridge.requests.map(({ type, fields }) => [type, fields.path])).toEqual([
    ["session.changes", undefined],
    ["session.diffs", "src/b.py"],
    ["session.diffs", "src/a.py"],
  ]);
  expect(bridge.requests[0]?.fields).toEqual({ session_id: "s1", run_id: null });
  await drawn.press("src/a.py+1−1");
  expect(drawn.container.querySelectorAll(".diff-box")).toHaveLength(1);
});

test("nothing is requested for a session without diffs", async () => {
  const builder = new RowBuilder();
  builder.terminal("ls");
  const bridge = new FakeBridge(ANSWERS);
  drawn = await render(<Beside builder={builder} bridge={bridge} />);
  expect(bridge.requests).toEqual([]);
});

test("an error of the server is shown in place of the changes", async () => {
  const bridge = new FakeBridge({ "session.changes": new Error("The journal cannot be read.") });
  drawn = await render(<Beside builder={changed()} bridge={bridge} loaded={{ more: true, before: 100 }} />);
  expect(drawn.container.textContent).toContain("The journal cannot be read.");
});
