import { useEffect, useLayoutEffect, useRef, useState } from "react";

import type { Bridge } from "../conversation/bridge";
import { displayPath } from "../conversation/paths";
import { CopyButton, useHighlight } from "../markdown";
import type { FileText } from "../protocol";
import { language } from "./language";
import type { OpenedFile } from "./usePanel";

/** Lines that are read at once, and how many of them come before the requested one. */
const PAGE_LINES = 2000;
const CONTEXT_LINES = 300;
const LINE_HEIGHT_PX = 18;

/** A file of the workspace, at a line. */
export function FileTab({
  bridge,
  sessionId,
  workspace,
  file,
}: {
  bridge: Bridge;
  sessionId: string;
  workspace: string;
  file: OpenedFile;
}) {
  const [from, setFrom] = useState(Math.max(1, (file.line ?? 1) - CONTEXT_LINES));
  const [text, setText] = useState<FileText | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isCurrent = true;
    bridge.request("files.read", { session_id: sessionId, path: file.path, line: from, limit: PAGE_LINES }).then(
      (read) => isCurrent && setText(read),
      (error: Error) => isCurrent && setProblem(error.message),
    );
    return () => {
      isCurrent = false;
    };
  }, [bridge, sessionId, file.path, from]);
  return (
    <div className="file">
      <p className="path file-head">
        <span title={file.path}>
          {displayPath(file.path, workspace)}
          {file.line !== null && `:${file.line}`}
        </span>
        {text && <CopyButton text={() => text.text} name="Copy the shown lines" />}
      </p>
      {problem && (
        <p className="bad" role="alert">
          {problem}
        </p>
      )}
      {!text && !problem && <p className="soft">Loading…</p>}
      {text && text.line > 1 && (
        <button type="button" className="small-button" onClick={() => setFrom(Math.max(1, text.line - PAGE_LINES))}>
          Earlier lines
        </button>
      )}
      {text && <Lines text={text} line={file.line} />}
      {text?.truncated && (
        <button type="button" className="small-button" onClick={() => setFrom(text.line + PAGE_LINES)}>
          Later lines ({text.lines} in total)
        </button>
      )}
    </div>
  );
}

/** Two columns of text: a node for each line would be thousands. */
function Lines({ text, line }: { text: FileText; line: number | null }) {
  const mark = useRef<HTMLDivElement>(null);
  const body = text.text.replace(/\n$/, "");
  const count = body.split("\n").length;
  const stretches = useHighlight(body, language(text.path), true);
  useLayoutEffect(() => mark.current?.scrollIntoView({ block: "center" }), [text]);
  const marked = line !== null && line >= text.line && line < text.line + count;
  return (
    <div className="file-lines" tabIndex={0} role="group" aria-label={text.path}>
      {marked && <div ref={mark} className="file-mark" style={{ top: (line - text.line) * LINE_HEIGHT_PX }} />}
      <pre className="file-numbers" aria-hidden="true">
        {Array.from({ length: count }, (_, at) => text.line + at).join("\n")}
      </pre>
      <pre>
        {stretches
          ? stretches.map((stretch, at) =>
              stretch.name === null ? (
                stretch.text
              ) : (
                <span key={at} className={stretch.name}>
                  {stretch.text}
                </span>
              ),
            )
          : body}
      </pre>
    </div>
  );
}
