import { Tooltip as BaseTooltip } from "@base-ui/react/tooltip";
import type { ReactElement } from "react";

import "./ui.css";

/** Shows the name of its trigger when the pointer rests on it or the keyboard reaches it. */
export function Tooltip({ text, children }: { text: string; children: ReactElement }) {
  return (
    <BaseTooltip.Root>
      <BaseTooltip.Trigger render={children} />
      <BaseTooltip.Portal>
        <BaseTooltip.Positioner className="tooltip-position" sideOffset={6} collisionPadding={8}>
          {/* For the eye alone: the trigger has the same text as its accessible name. */}
          <BaseTooltip.Popup className="tooltip" aria-hidden="true">
            {text}
          </BaseTooltip.Popup>
        </BaseTooltip.Positioner>
      </BaseTooltip.Portal>
    </BaseTooltip.Root>
  );
}
