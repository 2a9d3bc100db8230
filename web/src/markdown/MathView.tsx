import { useEffect, useRef } from "react";

/** A formula: its source at first, rendered once the library is loaded. */
export function MathView({ tex, display }: { tex: string; display: boolean }) {
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    let wanted = true;
    void import("./tex").then(({ drawMath }) => {
      if (wanted && place.current) drawMath(tex, display, place.current);
    });
    return () => {
      wanted = false;
    };
  }, [tex, display]);
  // The key replaces the element for another formula: React does not know the nodes that the library added.
  return (
    <span key={tex} ref={place} className={display ? "math math-block" : "math"}>
      {tex}
    </span>
  );
}
