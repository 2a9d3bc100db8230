export { isOpen as isPanelOpen, tabsOf } from "./contents";
export { PlanStrip } from "./PlanStrip";
export { SidePanel, TAB_LABELS } from "./SidePanel";
export { usePanel, type Tab } from "./usePanel";
export { useSessionChanges } from "./served";
