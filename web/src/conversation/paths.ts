/** A path as it is shown: within the workspace, without the workspace's own. */
export function shownPath(path: string, workspace: string): string {
  const root = workspace.endsWith("/") ? workspace : `${workspace}/`;
  return path.startsWith(root) && path.length > root.length ? path.slice(root.length) : path;
}

const DEEDS: Readonly<Record<string, string>> = { read: "Read", edit: "Write", delete: "Delete", move: "Move", search: "Search" };

/** A title as it is shown. Some agents call what they do by the bare path of a file, at times without its first slash. */
export function shownTitle(title: string, kind: string, workspace: string): string {
  const path = title.startsWith("/") ? title : `/${title}`;
  const shown = shownPath(path, workspace);
  return shown === path ? title : `${DEEDS[kind] ?? ""} ${shown}`.trim();
}
