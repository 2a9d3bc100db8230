import { useMemo, useState } from "react";

import type { Bridge } from "../conversation/bridge";
import { displayPath } from "../conversation/paths";
import { CountsView, DiffView, joined, LayoutSwitch, useDiffLayout } from "../diff";
import type { DiffItem, Rows } from "../protocol";
import { plural } from "../ui/format";
import { filesOf, type ChangedFile } from "./contents";
import { TruncatedList } from "./TruncatedList";
import {
  FULLY_LOADED,
  useEarlierContents,
  useEarlierDiffs,
  type EarlierContents,
  type LoadedRange,
} from "./earlierContents";

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
  earlier: EarlierContents;
  workspace: string;
  runId: string | null;
  onAll: () => void;
  onOpenFile: (path: string, line: number | null) => void;
}

/** Files that were changed, in the session or in one run, and the diff of the chosen one or of all. */
export function ChangesTab(props: Props) {
  const { bridge, sessionId, loaded, workspace, runId, onAll, onOpenFile } = props;
  const { tool_calls, file_calls, permissions } = props.rows;
  const ofRun = useEarlierContents(bridge, sessionId, runId === null ? FULLY_LOADED : loaded, runId);
  const earlier = runId === null ? props.earlier : ofRun;
  const files = useMemo(
    () => filesOf({ tool_calls, file_calls, permissions }, earlier, runId),
    [tool_calls, file_calls, permissions, earlier, runId],
  );
  const count = files.length + earlier.more_files;
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
      {files.length === 0 && <p className="soft">No changes.</p>}
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
      {earlier.more_files > 0 && <p className="soft">{plural(earlier.more_files, "earlier file")} not shown.</p>}
      {shown ? (
        <WholeFile key={shown.path} {...props} file={shown} />
      ) : (
        files.slice(0, MAX_FILES_SHOWN).map((file) => (
          <FileDiffs
            key={file.path}
            path={file.path}
            name={displayPath(file.path, workspace)}
            diffs={file.diffs}
            most={EACH_FILE_LIMITS}
            onOpenFile={onOpenFile}
          >
            {file.elsewhere > 0 && (
              <button type="button" className="small-button" onClick={() => setChosen(file.path)}>
                Show earlier changes
              </button>
            )}
          </FileDiffs>
        ))
      )}
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

/** All changes of one file, also those that are not here. */
function WholeFile({ bridge, sessionId, loaded, runId, workspace, onOpenFile, file }: Props & { file: ChangedFile }) {
  const rest = file.elsewhere > 0 ? loaded : FULLY_LOADED;
  const earlier = useEarlierDiffs(bridge, sessionId, file.path, rest, runId);
  const diffs = useMemo(
    () => file.diffs.reduce<readonly DiffItem[]>(joined, earlier?.diffs ?? []),
    [earlier, file.diffs],
  );
  return (
    <FileDiffs
      path={file.path}
      name={displayPath(file.path, workspace)}
      diffs={diffs}
      most={SELECTED_FILE_LIMITS}
      onOpenFile={onOpenFile}
    >
      {earlier === null && <p className="soft">Loading earlier changes…</p>}
      {earlier !== null && earlier.more > 0 && (
        <p className="soft">{plural(earlier.more, "earlier change")} cannot be shown: too large.</p>
      )}
      {earlier?.problem && (
        <p className="bad" role="alert">
          {earlier.problem}
        </p>
      )}
    </FileDiffs>
  );
}

function FileDiffs({
  path,
  name,
  diffs,
  most,
  onOpenFile,
  children,
}: {
  path: string;
  name: string;
  diffs: readonly DiffItem[];
  most: { readonly changes: number; readonly lines: number };
  onOpenFile: Props["onOpenFile"];
  children: React.ReactNode;
}) {
  const layout = useDiffLayout();
  const [all, setAll] = useState(false);
  const shown = all ? diffs : diffs.slice(-most.changes);
  const limit = Math.max(12, Math.floor(most.lines / shown.length));
  return (
    <section className="file-diffs" aria-label={path}>
      <p className="path">
        <button type="button" className="link-button" onClick={() => onOpenFile(path, null)}>
          {name}
        </button>
      </p>
      {children}
      {shown.length < diffs.length && (
        <button type="button" className="small-button" onClick={() => setAll(true)}>
          Show all {diffs.length} changes
        </button>
      )}
      {shown.map((diff, at) => (
        <DiffView key={diffs.length - shown.length + at} item={diff} layout={layout} limit={limit} />
      ))}
    </section>
  );
}
