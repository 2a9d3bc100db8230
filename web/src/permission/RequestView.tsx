import { useMemo } from "react";

import { displayPath } from "../conversation/paths";
import { CopyButton, Markdown } from "../markdown";
import { DiffView, useDiffLayout } from "../diff";
import type { Location, ToolContent } from "../protocol";
import { requestOf } from "./request";
import { escapeInvisible } from "./escapeInvisible";

interface Props {
  request: {
    readonly content: readonly ToolContent[];
    readonly raw_input: unknown;
    readonly locations: readonly Location[];
  };
  /** The folder of the request if it names no other. */
  workspace: string;
  onOpenFile: (path: string, line: number | null) => void;
}

/** The whole request: command, diffs, texts and the raw rest. */
export function RequestView({ request, workspace, onOpenFile }: Props) {
  const layout = useDiffLayout();
  const { command, folder, diffs, texts, rest } = useMemo(() => requestOf(request), [request]);
  const shown = new Set(diffs.map((diff) => diff.path));
  const elsewhere = request.locations.filter((location) => !shown.has(location.path));
  return (
    <div className="request">
      {command !== null && (
        <div className="command">
          <pre tabIndex={0} role="group" aria-label="The command">
            {escapeInvisible(command)}
          </pre>
          <CopyButton text={() => command} name="Copy command" />
        </div>
      )}
      {folder !== null && folder !== workspace && <p className="soft">in {escapeInvisible(folder)}</p>}
      {diffs.map((diff, at) => (
        <div key={at}>
          <p className="path" title={escapeInvisible(diff.path)}>
            {escapeInvisible(displayPath(diff.path, workspace))}{" "}
            {diff.old_text === null && <span className="soft">new file</span>}
          </p>
          <DiffView item={diff} layout={layout} />
        </div>
      ))}
      {texts.map((text, at) => (
        <Markdown key={at} text={text} />
      ))}
      {elsewhere.map((location, at) => (
        <p key={at}>
          <button
            type="button"
            className="link-button"
            title={escapeInvisible(location.path)}
            onClick={() => onOpenFile(location.path, location.line)}
          >
            {escapeInvisible(displayPath(location.path, workspace))}
            {location.line !== null && `:${location.line}`}
          </button>
        </p>
      ))}
      {rest !== null && <Rest rest={rest} folded={command !== null || diffs.length > 0} />}
    </div>
  );
}

function Rest({ rest, folded }: { rest: unknown; folded: boolean }) {
  const text = typeof rest === "string" ? rest : JSON.stringify(rest, null, 2);
  const shown = (
    <pre className="raw" tabIndex={0} role="group" aria-label="Raw request">
      {escapeInvisible(text)}
    </pre>
  );
  if (!folded) return shown;
  return (
    <details>
      <summary>Raw request</summary>
      {shown}
    </details>
  );
}
