// A conversation that has everything in it once.

import { formField, RowBuilder } from "./rowBuilder";

const OLD = `import re

TOKEN = re.compile(r"\\w+")


def parse(text):
    words = TOKEN.findall(text)
    result = []
    for word in words:
        result.append(word.lower())
    return result


def join(words):
    return " ".join(words)
`;
const NEW = OLD.replace('r"\\w+"', 'r"[\\w\'-]+"').replace(
  "    result = []\n    for word in words:\n        result.append(word.lower())\n    return result\n",
  "    return [word.lower() for word in words]\n",
);

const ANSWER = `## What was wrong

The test compared a **set** with a list, so its order depended on the hash seed. See [the parser](src/parse.py:12), \`TOKEN\` and [the docs](https://docs.python.org/3/library/re.html).

1. \`parse\` now keeps the order
2. the test names each case
   - one for words
   - one for apostrophes

| case | before | after |
| :--- | ---: | :---: |
| \`it's\` | 2 tokens | 1 token |
| \`well-known\` | 2 tokens | 1 token |

\`\`\`python
def parse(text: str) -> list[str]:
    """Words of a text, in lower case."""
    return [word.lower() for word in TOKEN.findall(text)]  # keeps the order
\`\`\`

The cost is $O(n)$, as

$$
\\sum_{i=1}^{n} c_i \\le c \\cdot n
$$

> A quotation, with a <script>alert(1)</script> tag shown as text and [a bad link](javascript:alert(1)).

- [x] fixed
- [ ] documented

![remote](https://example.com/pixel.png)
`;

export function example(): RowBuilder {
  const made = new RowBuilder(Date.now() / 1000 - 400);
  const first = made.run();
  made.message(
    "user",
    "The parser test is flaky: it fails about once in ten runs on CI, never here.\n\nPlease find out why, and fix it.",
    {
      blocks: [
        {
          type: "resource_link",
          uri: "file:///home/ada/api/tests/test_parse.py",
          name: "tests/test_parse.py",
          title: null,
          description: null,
          mime_type: null,
          size: null,
        },
      ],
    },
  );
  made.message(
    "thought",
    "The user says it is flaky. Possible reasons: **order**, time, hash seed.\n\nI should look at the test first.",
  );
  made.message("assistant", "I'll look at the test first.");
  made.call("read", "Read tests/test_parse.py", {
    locations: [{ path: "tests/test_parse.py", line: 12 }],
    raw_input: { path: "tests/test_parse.py" },
    content: [{ type: "content", content: { type: "text", text: "1  import parse\n2  \n3  def test_words():" } }],
  });
  const run = made.call("execute", "pytest -k parse", {
    status: "failed",
    raw_input: { command: "pytest -k parse" },
    ended_time: Date.now() / 1000 - 380,
    content: [
      {
        type: "content",
        content: {
          type: "text",
          text: "\u001b[1m==== test session starts ====\u001b[0m\ncollected 3 items\n\ntests/test_parse.py \u001b[32m.\u001b[0m\u001b[31mF\u001b[0m\u001b[32m.\u001b[0m\n\u001b[31mFAILED\u001b[0m tests/test_parse.py::test_order\n",
        },
      },
    ],
  });
  made.permission("pytest -k parse", {
    tool_call_row: run.id,
    outcome: "selected",
    option_id: "once",
    resolved_time: 1,
    decision: "allow",
    decided_by: "rule",
    reason: null,
    rule: "allow execute pytest *",
    layer: "workspace",
    remembered: [],
  });
  for (const path of [
    "src/parse.py",
    "src/lex.py",
    "README.md",
    "setup.cfg",
    "src/util.py",
    "tests/conftest.py",
    "tox.ini",
  ])
    made.call("read", `Read ${path}`);
  made.call("search", "grep PYTHONHASHSEED");
  made.call("search", "grep set\\(");
  made.message("assistant", "The order comes from a `set`. I'll keep the order instead:");
  made.call("edit", "Edit src/parse.py", {
    content: [{ type: "diff", path: "src/parse.py", old_text: OLD, new_text: NEW }],
    locations: [{ path: "src/parse.py", line: 3 }],
  });
  made.file("write", "tests/test_parse.py", {
    size: 420,
    diff: {
      type: "diff",
      path: "tests/test_parse.py",
      old_text: null,
      new_text: 'from parse import parse\n\n\ndef test_apostrophe():\n    assert parse("it\'s") == ["it\'s"]\n',
    },
    decision: "allow",
    decided_by: "person",
    reason: null,
    rule: null,
    layer: null,
    remembered: ["allow edit tests/**"],
  });
  const task = made.call("think", "Review the change", { name: "Task" });
  for (const title of ["Read src/parse.py", "Read tests/test_parse.py"])
    made.call("read", title, { parent_id: task.tool_call_id });
  made.call("execute", "python -m pytest", { parent_id: task.tool_call_id });
  made.terminal("pytest", ["-q", "-k", "parse and not slow"], {
    cwd: "/home/ada/api",
    output: "\u001b[32m....\u001b[0m                                [100%]\n\u001b[32m4 passed\u001b[0m in 0.12s\n",
  });
  made.message("assistant", ANSWER);
  made.put({
    ...first,
    status: "success",
    stop_reason: "end_turn",
    ended_time: Date.now() / 1000 - 300,
    usage: {
      input_tokens: 18_200,
      cached_tokens: 12_000,
      output_tokens: 2_100,
      thought_tokens: null,
      total_tokens: 20_300,
      context_used: 43_000,
      context_size: 100_000,
      is_context_size_guessed: false,
      cost: { amount: 0.0834, currency: "USD" },
    },
  });
  const second = made.run();
  made.message("user", "Thanks! Now remove the build folder.");
  made.message("assistant", "I'd run this:");
  made.put({ ...second, status: "cancelled", stop_reason: "cancelled", ended_time: second.time + 3 });
  const third = made.run();
  made.message("user", "Go on.");
  made.call("execute", "make all", { status: "in_progress", ended_time: null });
  made.put({ ...third, status: "error", reason: "The model's quota is used up (429).", ended_time: third.time + 6 });
  made.run();
  made.message("user", "Once more, please.");
  made.message("thought", "Let me think about this for a while.");
  made.call("execute", "npm test", { status: "in_progress", ended_time: null });
  made.permission("Run rm -rf build", {
    raw_input: {
      command: "rm -rf build && mkdir build",
      cwd: "/home/ada/api",
      description: "Empty the build folder",
      timeout: 120,
    },
  });
  made.permission("Edit src/parse.py", {
    kind: "edit",
    content: [{ type: "diff", path: "src/parse.py", old_text: OLD, new_text: NEW }],
    raw_input: { file: "src/parse.py" },
  });
  made.question("Before I release it I need to know **three things**.", {
    form: {
      fields: [
        formField("text", "version", { title: "Version", description: "As in 1.2.3", required: true }),
        formField("choice", "kind", {
          title: "Kind of release",
          required: true,
          default: "patch",
          choices: ["major", "minor", "patch"].map((value) => ({ value, title: value, description: "" })),
        }),
        formField("number", "workers", { title: "Workers", whole: true, default: 2 }),
        formField("choices", "tags", {
          title: "Tags",
          choices: ["stable", "beta", "lts"].map((value) => ({ value, title: value, description: "" })),
        }),
        formField("boolean", "announce", { title: "Announce it", default: true }),
      ],
      left_out: [],
      error: null,
    },
  });
  made.plan([
    { content: "Find out why the test is flaky", priority: "high", status: "completed" },
    { content: "Keep the order in `parse`", priority: "high", status: "completed" },
    { content: "Write a test for apostrophes", priority: "medium", status: "in_progress" },
    { content: "Release", priority: "low", status: "pending" },
  ]);
  return made;
}
