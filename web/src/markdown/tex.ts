// Math by KaTeX, loaded with the first formula.

import katex from "katex";
import "katex/dist/katex.min.css";

export function drawMath(tex: string, display: boolean, into: HTMLElement): void {
  katex.render(tex, into, {
    displayMode: display,
    throwOnError: false,
    trust: false,
    strict: "ignore",
    // A formula that blows itself up by macros ends here, not in a frozen page.
    maxExpand: 300,
    maxSize: 30,
  });
}
