// A conversation in which every text tries to run something, or to fetch something from elsewhere.

import { formField, RowBuilder } from "./rowBuilder";

const TAGS = `<img src=x onerror="window.ran=1"><script>window.ran=1</script><svg onload="window.ran=1"><iframe src="https://evil.example/frame">`;
const LINKS = `[a](javascript:window.ran=1) ![b](https://evil.example/pixel.png) [c](data:text/html,<script>window.ran=1</script>) <javascript:window.ran=1>`;
const MATH = `$\\href{javascript:window.ran=1}{x}$ $$\\includegraphics{https://evil.example/x.png}$$ $\\htmlData{onclick=window.ran=1}{y}$`;
const ESCAPES =
  "\u001b]8;;javascript:window.ran=1\u0007link\u001b]8;;\u0007\u001b]0;<script>\u0007\u001b]52;c;ZXZpbA==\u0007\u001b[31m<b>red</b>\u001b[0m";
const SVG = btoa(
  `<svg xmlns="http://www.w3.org/2000/svg" onload="window.ran=1"><script>window.ran=1</script><image href="https://evil.example/x.png"/></svg>`,
);

export const HOSTILE = [TAGS, LINKS, MATH].join("\n\n");

export function hostile(): RowBuilder {
  const made = new RowBuilder(Date.now() / 1000 - 100);
  const run = made.run();
  made.message("user", HOSTILE, {
    blocks: [{ type: "image", mime_type: "image/svg+xml", data: SVG, uri: "javascript:window.ran=1" }],
  });
  made.message("thought", HOSTILE);
  made.message(
    "assistant",
    `${HOSTILE}\n\n\`\`\`html"onload="window.ran=1\n${TAGS}\n\`\`\`\n\n| ${TAGS} | b |\n|---|---|\n| ${LINKS} | 2 |`,
    {
      blocks: [
        { type: "image", mime_type: 'image/png" onerror="window.ran=1', data: '" onerror="window.ran=1', uri: null },
        {
          type: "resource_link",
          uri: "javascript:window.ran=1",
          name: TAGS,
          title: null,
          description: TAGS,
          mime_type: null,
          size: null,
        },
        { type: "resource", uri: TAGS, mime_type: "text/html", text: TAGS, blob: null },
        { type: "unknown", kind: TAGS },
      ],
    },
  );
  made.call("edit", TAGS, {
    name: TAGS,
    raw_input: { command: TAGS, [TAGS]: TAGS },
    raw_output: ESCAPES,
    locations: [{ path: TAGS, line: 1 }],
    content: [
      { type: "diff", path: TAGS, old_text: TAGS, new_text: LINKS },
      { type: "content", content: { type: "text", text: ESCAPES } },
    ],
  });
  made.terminal(TAGS, [TAGS], { output: ESCAPES, cwd: TAGS });
  made.file("write", TAGS, { diff: { type: "diff", path: TAGS, old_text: null, new_text: TAGS }, error: TAGS });
  made.put({ ...run, status: "error", reason: TAGS });
  made.run();
  made.permission(TAGS, {
    raw_input: { command: TAGS, cwd: TAGS, more: TAGS },
    content: [{ type: "content", content: { type: "text", text: HOSTILE } }],
    options: [{ option_id: TAGS, name: TAGS, kind: "allow_once" }],
  });
  made.question(HOSTILE, {
    form: {
      fields: [formField("text", TAGS, { description: TAGS })],
      left_out: [TAGS],
      error: null,
    },
  });
  made.question(HOSTILE, { mode: "url", url: "javascript:window.ran=1" });
  made.plan([{ content: HOSTILE, priority: TAGS, status: TAGS }]);
  return made;
}
