import { Menu as BaseMenu } from "@base-ui/react/menu";
import { useRef } from "react";
import type { ReactNode } from "react";

import { Icon } from "./Icon";
import type { IconName } from "./Icon";

interface Named {
  id: string;
  label: string;
  /** A second line, smaller. */
  description?: string | null;
}

export interface MenuAction extends Named {
  /** For choices: true for the current one. */
  chosen?: boolean;
  danger?: boolean;
  act: () => void;
}

/** An item that opens a submenu. */
export interface MenuGroup extends Named {
  inside: readonly MenuAction[];
}

export type MenuItem = MenuAction | MenuGroup;

interface Props {
  /** The button's name, or the current value if there is a `hint`. */
  label: string;
  /** The name of the value: "Model". */
  hint?: string;
  items: readonly MenuItem[];
  /** Shown instead of the label. */
  children?: ReactNode;
  /** Shown alone; the label becomes its tooltip. */
  icon?: IconName;
  disabled?: boolean;
}

/** A list of choices longer than this has a field to filter it. */
const MAX_UNFILTERED = 9;

/** A button and the menu that it opens. */
export function Menu({ label, hint, items, children, icon, disabled = false }: Props) {
  const chosenAction = useRef<(() => void) | null>(null);
  const trigger = useRef<HTMLButtonElement>(null);
  const name = hint === undefined ? label : `${hint}: ${label}`;
  const onOpenChange = (open: boolean) => {
    if (open) chosenAction.current = null;
  };
  const onComplete = (open: boolean) => {
    if (open || chosenAction.current === null) return;
    // Before the action, which may move the keyboard elsewhere.
    trigger.current?.focus();
    chosenAction.current();
  };
  const onChoose = (act: () => void) => {
    chosenAction.current = act;
  };
  return (
    <div className="menu">
      <Filterable items={items}>
        <BaseMenu.Root modal={false} onOpenChange={onOpenChange} onOpenChangeComplete={onComplete} disabled={disabled}>
          <BaseMenu.Trigger
            ref={trigger}
            className={icon === undefined ? "button quiet" : "button quiet icon-only"}
            aria-label={name}
            title={name}
          >
            {icon === undefined && (children ?? <span className="menu-label">{label}</span>)}
            <Icon name={icon ?? "down"} />
          </BaseMenu.Trigger>
          <Popup
            label={hint ?? label}
            items={items}
            onChoose={onChoose}
            finalFocus={() => chosenAction.current === null}
          />
        </BaseMenu.Root>
      </Filterable>
    </div>
  );
}

interface PopupProps {
  label: string;
  items: readonly MenuItem[];
  onChoose: (act: () => void) => void;
  /** True if the focus returns to the button when the menu closes. */
  finalFocus: () => boolean;
}

function Popup({ label, items, onChoose, finalFocus }: PopupProps) {
  const chosen = items.find((item) => "act" in item && item.chosen);
  const isChoice = items.some((item) => "act" in item && item.chosen !== undefined);
  const list = items.map((item) =>
    "inside" in item ? (
      <Submenu key={item.id} group={item} onChoose={onChoose} finalFocus={finalFocus} />
    ) : (
      <Action key={item.id} item={item} onChoose={onChoose} />
    ),
  );
  return (
    <BaseMenu.Portal>
      <BaseMenu.Positioner className="menu-position" side="bottom" align="end" sideOffset={4} collisionPadding={8}>
        <BaseMenu.Popup className="menu-box" aria-label={label} finalFocus={finalFocus}>
          {isFilterable(items) && (
            <BaseMenu.Input className="input" aria-label={`Filter: ${label}`} placeholder="Filter" />
          )}
          {isFilterable(items) && <BaseMenu.Empty className="menu-none">No matches.</BaseMenu.Empty>}
          <BaseMenu.List className="menu-list">
            {isChoice ? (
              <BaseMenu.RadioGroup value={chosen?.id ?? ""} aria-label={label}>
                {list}
              </BaseMenu.RadioGroup>
            ) : (
              list
            )}
          </BaseMenu.List>
        </BaseMenu.Popup>
      </BaseMenu.Positioner>
    </BaseMenu.Portal>
  );
}

function Submenu({ group, ...rest }: { group: MenuGroup } & Pick<PopupProps, "onChoose" | "finalFocus">) {
  return (
    <Filterable items={group.inside}>
      <BaseMenu.SubmenuRoot>
        <BaseMenu.SubmenuTrigger className="menu-item">
          <Words item={group} />
          <Icon name="forward" />
        </BaseMenu.SubmenuTrigger>
        <Popup label={group.label} items={group.inside} {...rest} />
      </BaseMenu.SubmenuRoot>
    </Filterable>
  );
}

function Action({ item, onChoose }: { item: MenuAction; onChoose: PopupProps["onChoose"] }) {
  const className = item.danger ? "menu-item danger" : "menu-item";
  const onClick = () => onChoose(item.act);
  if (item.chosen === undefined) {
    return (
      <BaseMenu.Item className={className} label={item.label} onClick={onClick}>
        <Words item={item} />
      </BaseMenu.Item>
    );
  }
  return (
    <BaseMenu.RadioItem className={className} value={item.id} label={item.label} closeOnClick onClick={onClick}>
      <span className="menu-check">{item.chosen && <Icon name="check" />}</span>
      <Words item={item} />
    </BaseMenu.RadioItem>
  );
}

function Words({ item }: { item: Named }) {
  return (
    <span className="menu-words">
      {item.label}
      {item.description && <small>{item.description}</small>}
    </span>
  );
}

function Filterable({ items, children }: { items: readonly MenuItem[]; children: ReactNode }) {
  return isFilterable(items) ? <BaseMenu.FilterProvider>{children}</BaseMenu.FilterProvider> : children;
}

function isFilterable(items: readonly MenuItem[]): boolean {
  return items.filter((item) => "act" in item && item.chosen !== undefined).length > MAX_UNFILTERED;
}
