import { useMemo, useState } from "react";

import { shownPath } from "../conversation/paths";
import { changesOf, CountsView, DiffView, LayoutSwitch, useDiffLayout, type FileChanges } from "../diff";
import type { Rows } from "../protocol";
import { plural } from "../ui/words";

interface Props {
  rows: Rows;
  workspace: string;
  runId: string | null;
  onAll: () => void;
  onOpenFile: (path: string, line: number | null) => void;
}

/** Files that were changed, in the session or in one run, and the diff of the chosen one or of all. */
export function ChangesTab({ rows, workspace, runId, onAll, onOpenFile }: Props) {
  const { tool_calls, file_calls, permissions } = rows;
  const files = useMemo(
    () => changesOf({ tool_calls, file_calls, permissions }, runId ?? undefined),
    [tool_calls, file_calls, permissions, runId],
  );
  const [chosen, setChosen] = useState<string | null>(null);
  const shown = files.find((file) => file.path === chosen) ?? null;
  const added = files.reduce((sum, file) => sum + file.added, 0);
  const removed = files.reduce((sum, file) => sum + file.removed, 0);
  return (
    <div className="changes">
      <div className="changes-head">
        <p>
          {runId === null ? plural(files.length, "file") : `${plural(files.length, "file")} in this run`}{" "}
          <CountsView added={added} removed={removed} />
        </p>
        {runId !== null && (
          <button type="button" className="small-button" onClick={onAll}>
            Whole session
          </button>
        )}
        <LayoutSwitch />
      </div>
      {files.length === 0 && <p className="soft">Nothing was changed.</p>}
      <ul className="changed-files">
        {files.length > 1 && <FileRow name="All files" chosen={shown === null} onChoose={() => setChosen(null)} />}
        {files.map((file) => (
          <FileRow
            key={file.path}
            name={shownPath(file.path, workspace)}
            file={file}
            chosen={shown === file || files.length === 1}
            onChoose={() => setChosen(file.path)}
          />
        ))}
      </ul>
      {(shown ? [shown] : files).map((file) => (
        <FileDiffs
          key={file.path}
          file={file}
          name={shownPath(file.path, workspace)}
          limit={shown || files.length === 1 ? 400 : 60}
          onOpenFile={onOpenFile}
        />
      ))}
    </div>
  );
}

function FileRow({
  name,
  file,
  chosen,
  onChoose,
}: {
  name: string;
  file?: FileChanges;
  chosen: boolean;
  onChoose: () => void;
}) {
  return (
    <li>
      <button type="button" className="changed-file" aria-pressed={chosen} title={name} onClick={onChoose}>
        {/* Cut at its beginning: the end of a path tells files apart. */}
        <span className="changed-path">
          <bdi>{name}</bdi>
        </span>
        {file?.created && <span className="soft">new</span>}
        {file && <CountsView added={file.added} removed={file.removed} />}
      </button>
    </li>
  );
}

function FileDiffs({
  file,
  name,
  limit,
  onOpenFile,
}: {
  file: FileChanges;
  name: string;
  limit: number;
  onOpenFile: Props["onOpenFile"];
}) {
  const layout = useDiffLayout();
  return (
    <section className="file-diffs" aria-label={file.path}>
      <p className="path">
        <button type="button" className="link-button" onClick={() => onOpenFile(file.path, null)}>
          {name}
        </button>
      </p>
      {file.diffs.map((diff, at) => (
        <DiffView key={at} item={diff} layout={layout} limit={limit} />
      ))}
    </section>
  );
}
