import { useEffect, useRef } from "react";

/** A formula: its own text at first, drawn once the library is there. */
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
  // The key makes React start anew for another formula: it does not know what the library put there.
  return (
    <span key={tex} ref={place} className={display ? "math math-block" : "math"}>
      {tex}
    </span>
  );
}
