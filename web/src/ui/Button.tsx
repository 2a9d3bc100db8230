import type { ComponentProps } from "react";

import { Icon } from "./Icon";
import type { IconName } from "./Icon";
import { Tooltip } from "./Tooltip";
import "./ui.css";

interface Look {
  /** primary: the main action, at most one in a view; danger: an action that cannot be undone. */
  look?: "plain" | "primary" | "danger" | "quiet";
}

export function Button({ look = "plain", className = "", ...rest }: ComponentProps<"button"> & Look) {
  return <button type="button" className={`button ${look} ${className}`} {...rest} />;
}

/** An icon button; `label` is its accessible name and its tooltip. */
export function IconButton({
  icon,
  label,
  className = "",
  ...rest
}: ComponentProps<"button"> & { icon: IconName; label: string }) {
  return (
    <Tooltip text={label}>
      <button type="button" className={`button quiet icon-only ${className}`} aria-label={label} {...rest}>
        <Icon name={icon} />
      </button>
    </Tooltip>
  );
}
