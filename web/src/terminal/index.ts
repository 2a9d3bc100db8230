export { commandLine } from "./command";
export { Output } from "./ScreenView";
export { TerminalView } from "./TerminalView";
