export type { Bridge } from "./bridge";
export { Conversation } from "./Conversation";
export type { ProblemAction } from "./context";
