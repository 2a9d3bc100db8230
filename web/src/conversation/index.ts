export type { Bridge } from "./bridge";
export { Conversation } from "./Conversation";
export type { Action } from "./talk";
