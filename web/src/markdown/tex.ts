// Math by KaTeX, loaded with the first formula.

import katex from "katex";
import "katex/dist/katex.min.css";

/** Draws a formula; one that the library cannot draw stays as it is written. */
export function drawMath(tex: string, display: boolean, into: HTMLElement): void {
  try {
    katex.render(tex, into, {
      displayMode: display,
      throwOnError: false,
      trust: false,
      strict: "ignore",
      // A formula that blows itself up by macros ends here, not in a frozen page.
      maxExpand: 300,
      maxSize: 30,
    });
  } catch {
    // It throws in spite of the option where it is not the formula's grammar, such as too many levels of brackets.
    into.textContent = tex;
  }
}
