export { isOpen as isPanelOpen } from "./contents";
export { PlanStrip } from "./PlanStrip";
export { SidePanel } from "./SidePanel";
export { usePanel } from "./usePanel";
