import type { RecentWorkspaces } from "../protocol";
import { Field } from "../ui/Field";
import { baseName, plural, shortPath } from "../ui/format";

interface Props {
  workspaces: RecentWorkspaces | null;
  cwd: string;
  onChange: (cwd: string) => void;
}

const MAX_SHOWN = 6;

/** The folder that the agent works in: one of the last, or any other by its path. */
export function WorkspacePicker({ workspaces, cwd, onChange }: Props) {
  const home = workspaces?.home ?? "";
  const recent = workspaces?.workspaces ?? [];
  const notice = recent.find((workspace) => workspace.cwd === cwd)?.notice;
  return (
    <>
      <Field
        label="Folder"
        value={cwd}
        onChange={(event) => onChange(event.target.value)}
        autoComplete="off"
        autoCapitalize="off"
        spellCheck={false}
        hint={notice ?? "The agent starts here. A path on the machine where Dragoman runs."}
      />
      {recent.length > 0 && (
        <div className="start-recent" role="group" aria-label="Recent workspaces">
          {recent.slice(0, MAX_SHOWN).map((workspace) => (
            <button
              key={workspace.cwd}
              type="button"
              className="button"
              aria-pressed={workspace.cwd === cwd}
              title={`${shortPath(workspace.cwd, home)}, ${plural(workspace.sessions, "session")}`}
              onClick={() => onChange(workspace.cwd)}
            >
              {workspace.cwd === home ? "~" : baseName(workspace.cwd)}
            </button>
          ))}
        </div>
      )}
    </>
  );
}
