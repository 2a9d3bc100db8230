import { useEffect, useRef } from "react";

/** A formula: its source at first, rendered once the library is loaded. */
export function MathView({ tex, display }: { tex: string; display: boolean }) {
  const spanRef = useRef<HTMLElement>(null);
  useEffect(() => {
    let isCurrent = true;
    void import("./tex").then(({ drawMath }) => {
      if (isCurrent && spanRef.current) drawMath(tex, display, spanRef.current);
    });
    return () => {
      isCurrent = false;
    };
  }, [tex, display]);
  // The key replaces the element for another formula: React does not know the nodes that the library added.
  return (
    <span key={tex} ref={spanRef} className={display ? "math math-block" : "math"}>
      {tex}
    </span>
  );
}
