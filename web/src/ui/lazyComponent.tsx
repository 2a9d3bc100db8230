import { lazy, useState, type ComponentType, type FunctionComponent } from "react";

export interface LazyComponent<P> extends FunctionComponent<P> {
  /** Loads the code before the component is shown. */
  preload: () => Promise<unknown>;
}

/**
 * A component whose code is loaded when it is needed. Once that is loaded it renders at once, without a frame of the
 * fallback in between.
 */
export function lazyComponent<P extends object>(load: () => Promise<ComponentType<P>>): LazyComponent<P> {
  let loaded: ComponentType<P> | null = null;
  const preload = async () => {
    loaded ??= await load();
    return { default: loaded };
  };
  const Pending = lazy(preload);
  // biome-ignore lint/correctness/noComponentHookFactories: called once for each component, at module level
  const Shown: FunctionComponent<P> = (props) => {
    // Chosen once, so that a component that was shown while it loaded is not mounted again.
    const [Component] = useState<ComponentType<P>>(() => loaded ?? (Pending as unknown as ComponentType<P>));
    return <Component {...props} />;
  };
  return Object.assign(Shown, { preload });
}

/** Calls back when the page has nothing else to do. */
export function whenIdle(act: () => void): void {
  if ("requestIdleCallback" in window) requestIdleCallback(act);
  else setTimeout(act, 1_000); // Safari
}
