import type { ComponentProps } from "react";

import { Icon } from "./Icon";
import type { IconName } from "./Icon";
import "./ui.css";

interface Look {
  /** primary: what most people come here to press, once in a view at most; danger: what cannot be undone. */
  look?: "plain" | "primary" | "danger" | "quiet";
}

export function Button({ look = "plain", className = "", ...rest }: ComponentProps<"button"> & Look) {
  return <button type="button" className={`button ${look} ${className}`} {...rest} />;
}

/** A button that shows only an icon; `label` is what it is called and what its tip says. */
export function IconButton({
  icon,
  label,
  className = "",
  ...rest
}: ComponentProps<"button"> & { icon: IconName; label: string }) {
  return (
    <button type="button" className={`button quiet icon-only ${className}`} aria-label={label} title={label} {...rest}>
      <Icon name={icon} />
    </button>
  );
}
