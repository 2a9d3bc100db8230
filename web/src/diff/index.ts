export { totalCounts } from "./hunks";
export { CountsView, DiffView } from "./DiffView";
export { LayoutSwitch, useDiffLayout } from "./LayoutSwitch";
