/** A path as it is shown: within the workspace, without the workspace's own. One that climbs is shown in full. */
export function displayPath(path: string, workspace: string): string {
  const root = workspace.endsWith("/") ? workspace : `${workspace}/`;
  const within = path.startsWith(root) && path.length > root.length && !path.split("/").includes("..");
  return within ? path.slice(root.length) : path;
}

const KIND_VERBS: Readonly<Record<string, string>> = {
  read: "Read",
  edit: "Write",
  delete: "Delete",
  move: "Move",
  search: "Search",
};

/** Shortens paths within the workspace in a title, except in a command line, which is shown as it is run. Some agents
 * use the bare path of a file as title, sometimes without its first slash. */
export function displayTitle(title: string, kind: string, workspace: string): string {
  const path = title.startsWith("/") ? title : `/${title}`;
  const display = displayPath(path, workspace);
  if (display !== path) return `${KIND_VERBS[kind] ?? ""} ${display}`.trim();
  if (kind === "execute" || !title.includes(workspace)) return title;
  return title.replaceAll(/[^\s"'`()]+/g, (word) => displayPath(word, workspace));
}
