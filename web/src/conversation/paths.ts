/** A path as it is shown: within the workspace, without the workspace's own. */
export function shownPath(path: string, workspace: string): string {
  const root = workspace.endsWith("/") ? workspace : `${workspace}/`;
  return path.startsWith(root) && path.length > root.length ? path.slice(root.length) : path;
}
