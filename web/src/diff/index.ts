export { changesOf, joined, total, type FileChanges } from "./changes";
export { CountsView, DiffView } from "./DiffView";
export { LayoutSwitch, useDiffLayout } from "./LayoutSwitch";
