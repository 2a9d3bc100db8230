// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, test } from "vitest";

import { render, FakeBridge, type Rendered } from "../dev/render";
import { LIVE, RowBuilder, SESSION, STATE } from "../dev/rowBuilder";
import { SidePanel } from "./SidePanel";
import { FULLY_LOADED, useEarlierContents, type LoadedRange } from "./earlierContents";
import { usePanel } from "./usePanel";

let drawn: Rendered;
beforeEach(() => localStorage.clear());
afterEach(() => drawn.end());

function Beside({
  builder,
  bridge = new FakeBridge(),
  loaded = FULLY_LOADED,
}: {
  builder: RowBuilder;
  bridge?: FakeBridge;
  loaded?: LoadedRange;
}) {
  const panel = usePanel(SESSION.id);
  const earlier = useEarlierContents(bridge, SESSION.id, loaded);
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
        earlier={earlier}
      />
    </>
  );
}

function changed(): RowBuilder {
  const builder = new RowBuilder();
  builder.run();
  builder.call("edit", "one", { content: [{ type: "diff", path: "src/a.py", old_text: "x\n", new_text: "y\n" }] });
  builder.call("edit", "two", { content: [{ type: "diff", path: "src/b.py", old_text: null, new_text: "z\n" }] });
  builder.plan([{ content: "Do it", priority: "high", status: "completed" }]);
  return builder;
}

test("it shows all files that were changed, or the one that is chosen", async () => {
  drawn = await render(<Beside builder={changed()} />);
  const regions = () => [...drawn.container.querySelectorAll(".diff-box")].map((one) => one.getAttribute("aria-label"));
  expect(regions()).toEqual(["Changes in src/b.py", "Changes in src/a.py"]);
  await drawn.press("src/a.py+1−1");
  expect(regions()).toEqual(["Changes in src/a.py"]);
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

test("a file that is opened is read and shown at its line", async () => {
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

test("figures that were not reported are said to be so", async () => {
  drawn = await render(<Beside builder={changed()} />);
  await drawn.press("Details");
  expect(drawn.container.textContent).toContain("Costnot reported");
});

test("it tells of the whole session, and reads what is not here when it is chosen", async () => {
  const file = { path: "src/old.py", added: 7, removed: 2, created: false, changes: 1 };
  const bridge = new FakeBridge({
    "session.changes": { files: [file], more_files: 0, terminals: [], more_terminals: 0 },
    "session.diffs": { diffs: [{ type: "diff", path: "src/old.py", old_text: "p\n", new_text: "q\n" }], more: 0 },
  });
  drawn = await render(<Beside builder={changed()} bridge={bridge} loaded={{ more: true, before: 100 }} />);
  expect(drawn.container.textContent).toContain("3 files");
  expect(bridge.requests.at(-1)?.fields).toEqual({ session_id: "s1", before: 100, run_id: null });
  await drawn.press("src/old.py+7−2");
  expect(bridge.requests.at(-1)?.fields).toEqual({ session_id: "s1", path: "src/old.py", before: 100, run_id: null });
  expect(drawn.container.querySelector(".diff-box")?.getAttribute("aria-label")).toBe("Changes in src/old.py");
});

test("where the rest of the session cannot be read it says so", async () => {
  const bridge = new FakeBridge({ "session.changes": new Error("The journal is away.") });
  drawn = await render(<Beside builder={changed()} bridge={bridge} loaded={{ more: true, before: 100 }} />);
  expect(drawn.container.textContent).toContain("The journal is away.");
  expect(drawn.container.textContent).toContain("2 files");
});
