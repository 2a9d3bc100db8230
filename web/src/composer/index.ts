export { Composer } from "./Composer";
