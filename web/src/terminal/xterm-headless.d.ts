// The package's own entry points at a file that it does not have; this is the one for browsers.
declare module "@xterm/headless/lib-headless/xterm-headless.mjs" {
  export { Terminal } from "@xterm/headless";
}
