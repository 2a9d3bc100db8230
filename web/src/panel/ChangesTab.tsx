import { useState } from "react";

import type { Bridge } from "../conversation/bridge";
import { displayPath } from "../conversation/paths";
import { CountsView, DiffView, LayoutSwitch, useDiffLayout } from "../diff";
import type { ChangedFile, Rows } from "../protocol";
import { plural } from "../ui/format";
import { useFileDiffs, useSessionChanges, type LoadedRange, type SessionChanges } from "./served";
import { TruncatedList } from "./TruncatedList";

/** Limits for the selected file: its last changes, because each line of a diff is several nodes of the page. */
const SELECTED_FILE_LIMITS = { changes: 10, lines: 400 };
/** Limits for each file while none is selected: those that changed last are shown. */
const EACH_FILE_LIMITS = { changes: 3, lines: 60 };
const MAX_FILES_SHOWN = 4;

interface Props {
  bridge: Bridge;
  sessionId: string;
  rows: Rows;
  loaded: LoadedRange;
  /** Of the whole session. */
  changes: SessionChanges;
  workspace: string;
  runId: string | null;
  onAll: () => void;
  onOpenFile: (path: string, line: number | null) => void;
}

/** Files that were changed, in the session or in one run, and the diff of the chosen one or of all. */
export function ChangesTab(props: Props) {
  if (props.runId === null) return <ChangedFiles {...props} />;
  return <RunChanges {...props} runId={props.runId} />;
}

function RunChanges(props: Props & { runId: string }) {
  const { bridge, sessionId, rows, loaded, runId } = props;
  return <ChangedFiles {...props} changes={useSessionChanges(bridge, sessionId, rows, loaded, runId)} />;
}

function ChangedFiles({ bridge, sessionId, changes, workspace, runId, onAll, onOpenFile }: Props) {
  const { files } = changes;
  const count = files.length + changes.more_files;
  const [chosen, setChosen] = useState<string | null>(null);
  const shown = files.find((file) => file.path === chosen) ?? (files.length === 1 ? files[0] : null) ?? null;
  const added = files.reduce((sum, file) => sum + file.added, 0);
  const removed = files.reduce((sum, file) => sum + file.removed, 0);
  return (
    <div className="changes">
      <div className="changes-head">
        <p>
          {runId === null ? plural(count, "file") : `${plural(count, "file")} in this run`}{" "}
          <CountsView added={added} removed={removed} />
        </p>
        {runId !== null && (
          <button type="button" className="small-button" onClick={onAll}>
            Whole session
          </button>
        )}
        <LayoutSwitch />
      </div>
      {changes.problem && runId !== null && (
        <p className="bad" role="alert">
          {changes.problem}
        </p>
      )}
      {files.length === 0 && !changes.problem && (
        <p className="soft">{changes.isLoading ? "Loading…" : "No changes."}</p>
      )}
      <ul className="changed-files">
        {files.length > 1 && <FileRow name="All files" chosen={shown === null} onChoose={() => setChosen(null)} />}
        <TruncatedList all={files} what="files">
          {(file) => (
            <FileRow
              key={file.path}
              name={displayPath(file.path, workspace)}
              file={file}
              chosen={shown === file}
              onChoose={() => setChosen(file.path)}
            />
          )}
        </TruncatedList>
      </ul>
      {changes.more_files > 0 && <p className="soft">{plural(changes.more_files, "earlier file")} not shown.</p>}
      {(shown ? [shown] : files.slice(0, MAX_FILES_SHOWN)).map((file) => (
        <FileDiffs
          key={file.path}
          bridge={bridge}
          sessionId={sessionId}
          runId={runId}
          file={file}
          name={displayPath(file.path, workspace)}
          limits={shown ? SELECTED_FILE_LIMITS : EACH_FILE_LIMITS}
          onOpenFile={onOpenFile}
        />
      ))}
      {!shown && files.length > MAX_FILES_SHOWN && <p className="soft">Select a file to see its changes.</p>}
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
  file?: ChangedFile;
  chosen: boolean;
  onChoose: () => void;
}) {
  return (
    <li>
      <button type="button" className="changed-file" aria-pressed={chosen} title={name} onClick={onChoose}>
        {/* Truncated at the start: the end of a path distinguishes files. */}
        <span className="changed-path">
          <bdi>{name}</bdi>
        </span>
        {file?.created && <span className="soft">new</span>}
        {file && <CountsView added={file.added} removed={file.removed} />}
      </button>
    </li>
  );
}

interface FileDiffsProps {
  bridge: Bridge;
  sessionId: string;
  runId: string | null;
  file: ChangedFile;
  name: string;
  limits: { readonly changes: number; readonly lines: number };
  onOpenFile: Props["onOpenFile"];
}

/** The changes of one file. */
function FileDiffs({ bridge, sessionId, runId, file, name, limits, onOpenFile }: FileDiffsProps) {
  const { path } = file;
  const served = useFileDiffs(bridge, sessionId, path, runId, `${file.position} ${file.changes}`);
  const layout = useDiffLayout();
  const [all, setAll] = useState(false);
  const diffs = served?.diffs ?? [];
  const shown = all ? diffs : diffs.slice(-limits.changes);
  const lines = Math.max(12, Math.floor(limits.lines / Math.max(1, shown.length)));
  return (
    <section className="file-diffs" aria-label={path}>
      <p className="path">
        <button type="button" className="link-button" onClick={() => onOpenFile(path, null)}>
          {name}
        </button>
      </p>
      {served === null && <p className="soft">Loading changes…</p>}
      {served !== null && served.more > 0 && (
        <p className="soft">{plural(served.more, "earlier change")} cannot be shown: too large.</p>
      )}
      {served?.problem && (
        <p className="bad" role="alert">
          {served.problem}
        </p>
      )}
      {shown.length < diffs.length && (
        <button type="button" className="small-button" onClick={() => setAll(true)}>
          Show all {diffs.length} changes
        </button>
      )}
      {shown.map((diff, index) => (
        <DiffView key={diffs.length - shown.length + index} item={diff} layout={layout} limit={lines} />
      ))}
    </section>
  );
}
