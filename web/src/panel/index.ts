export { isOpen as isPanelOpen, tabsOf } from "./contents";
export { PlanStrip } from "./PlanStrip";
export { SidePanel, TAB_NAMES } from "./SidePanel";
export { usePanel, type Tab } from "./usePanel";
export { useEarlier } from "./useEarlier";
