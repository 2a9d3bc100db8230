import type { ComponentProps, MouseEvent } from "react";

import { formatRoute, navigate } from "../route";
import type { Route } from "../route";

/** A real link that changes the view without reloading the page. */
export function Link({ to, onClick, ...rest }: Omit<ComponentProps<"a">, "href"> & { to: Route }) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    // The browser opens new tabs and windows.
    const elsewhere = event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
    if (elsewhere || event.defaultPrevented) return;
    event.preventDefault();
    navigate(to);
  };
  return <a href={formatRoute(to)} onClick={follow} {...rest} />;
}
