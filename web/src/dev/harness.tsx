// The conversation and its parts on made data: `npm run dev`, then /src/dev/. `?dark`, `?stream`, `?long`, `?hostile`.

import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

import { Composer } from "../composer";
import { Conversation, type Bridge } from "../conversation";
import { PlanStrip, SidePanel, usePanel, useSessionChanges } from "../panel";
import { FULLY_LOADED } from "../panel/served";
import type { SessionState, ResultOf, SessionDetails } from "../protocol";
import type { RequestType } from "../socket/requests";
import { example } from "./example";
import { hostile } from "./hostile";
import { LIVE, RowBuilder, NO_USAGE, SESSION, STATE } from "./rowBuilder";
import "../styles/tokens.css";
import "../styles/base.css";
import "./harness.css";

const options = new URLSearchParams(location.search);
if (options.has("dark")) document.documentElement.dataset.theme = "dark";
if (options.has("light")) document.documentElement.dataset.theme = "light";

const ANSWERS: Partial<{ [T in RequestType]: ResultOf[T] }> = {
  "session.changes": {
    files: [{ path: "src/parse.py", added: 2, removed: 1, created: false, changes: 1, position: 1 }],
    more_files: 0,
    runs: [],
    terminals: [],
    more_terminals: 0,
  },
  "session.diffs": {
    diffs: [{ type: "diff", path: "src/parse.py", old_text: "a\nb\n", new_text: "a\nc\nd\n" }],
    more: 0,
  },
  "policy.preview": { rules: ["allow execute rm -rf build (in /home/ada/api)"], only_files: [], error: "" },
  "permission.answer": { accepted: true },
  "question.answer": { accepted: true },
  "files.list": { cwd: "/home/ada/api", paths: ["src/parse.py", "src/lex.py", "tests/test_parse.py"], complete: true },
  "files.read": {
    path: "src/parse.py",
    text: "import re\n\n\ndef parse(text):\n    return text.split()\n",
    line: 1,
    lines: 5,
    truncated: false,
  },
};

const bridge: Bridge = {
  request: (type) => {
    const answer = ANSWERS[type];
    return answer ? Promise.resolve(answer) : Promise.reject(new Error(`The harness does not do ${type}`));
  },
  subscribe: () => () => {},
};

const STATE_SHOWN: SessionDetails = {
  ...STATE,
  commands: [
    { name: "compact", description: "Make the context shorter", hint: null },
    { name: "review", description: "Review the changes", hint: "what to look at" },
  ],
  usage: { ...NO_USAGE, context_used: 43_000, context_size: 100_000, cost: { amount: 0.21, currency: "USD" } },
};

/** `?problem`, `?queue`, `?idle` */
function live(): SessionState {
  return {
    ...LIVE,
    status: options.has("idle") ? "idle" : "running",
    queue: options.has("queue")
      ? [
          { id: "1", text: "Then write the release notes", attachments: [], time: 0 },
          { id: "2", text: "And send them", attachments: ["notes.md"], time: 0 },
        ]
      : [],
    ...(options.has("problem") && {
      connection: "error" as const,
      status: "error" as const,
      reason: "exited with 1",
      failure: {
        kind: "AgentNotFound",
        category: "start",
        message: "claude-agent-acp was not found.",
        guidance: "Install it, then restart the session.",
        stderr: "sh: claude-agent-acp: not found",
        actions: ["restart", "settings"],
        install: "npm install -g claude-agent-acp",
      },
    }),
  };
}

function long(): RowBuilder {
  const made = new RowBuilder();
  for (let run = 0; run < 400; run++) {
    const row = made.run();
    made.message("user", `Question ${run}: what is in file ${run}?`);
    for (let call = 0; call < 12; call++)
      made.call(call % 5 === 4 ? "edit" : "read", `Read src/file_${run}_${call}.py`);
    made.message("assistant", `${`Answer ${run}. `.repeat(40)}\n\n\`\`\`py\nx = 1\n\`\`\`\n\nAnd so on.`);
    made.put({ ...row, status: "success", ended_time: row.time + 20 });
  }
  return made;
}

function useRows() {
  const [made] = useState(() =>
    options.has("long")
      ? long()
      : options.has("stream")
        ? new RowBuilder()
        : options.has("hostile")
          ? hostile()
          : example(),
  );
  const [rows, setRows] = useState(made.rows);
  useEffect(() => {
    if (!options.has("stream")) return;
    made.run();
    made.message("user", "Write something long.");
    let message = made.message("assistant", "", { ended: false });
    let text = "";
    let count = 0;
    const line = "Some words of **the answer**, with `code` and a [link](https://example.com). ";
    const frame = () => {
      for (let chunk = 0; chunk < 33; chunk++, count++) {
        text +=
          count % 97 === 96
            ? "\n\n```python\nfor i in range(10):\n    print(i)\n```\n\n"
            : count % 23 === 22
              ? "\n\n"
              : line.slice((count * 7) % line.length, ((count * 7) % line.length) + 7);
      }
      message = made.put({ ...message, text });
      setRows(made.rows);
      if (count < Number(options.get("stream") || 20000)) requestAnimationFrame(frame);
      else document.title = "done";
    };
    requestAnimationFrame(frame);
  }, [made]);
  return rows;
}

function Harness() {
  const rows = useRows();
  const panel = usePanel(SESSION.id);
  const shared = { bridge, session: SESSION, rows, live: live(), state: STATE_SHOWN };
  const changes = useSessionChanges(bridge, SESSION.id, rows, FULLY_LOADED);
  if (options.has("panel")) {
    return (
      <main className="harness">
        <h1 className="unseen">Harness</h1>
        <SidePanel {...shared} changes={changes} panel={panel} whole />
      </main>
    );
  }
  return (
    <main className="harness">
      <h1 className="unseen">Harness</h1>
      <div className="harness-talk">
        <Conversation
          {...shared}
          more={false}
          onHistory={() => Promise.resolve()}
          anchor={location.hash.slice(1) || undefined}
          onOpenFile={panel.openFile}
          onShowChanges={panel.showChanges}
          onAction={(action) => console.info("action", action)}
        />
        <PlanStrip plans={rows.plans} />
        <Composer {...shared} />
      </div>
      {innerWidth > 720 && <SidePanel {...shared} changes={changes} panel={panel} />}
    </main>
  );
}

const root = document.getElementById("root");
if (root) createRoot(root).render(<Harness />);
