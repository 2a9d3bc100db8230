import { Select as BaseSelect } from "@base-ui/react/select";

import { Icon } from "./Icon";
import "./ui.css";

export interface SelectOption {
  readonly value: string;
  readonly label: string;
}

interface Props {
  options: readonly SelectOption[];
  id?: string | undefined;
  /** The field's name in the form that it belongs to. */
  name?: string | undefined;
  value?: string | undefined;
  defaultValue?: string | undefined;
  /** Shown while nothing is selected. */
  placeholder?: string | undefined;
  onValueChange?: ((value: string) => void) | undefined;
  "aria-labelledby"?: string | undefined;
  "aria-describedby"?: string | undefined;
  "aria-invalid"?: boolean | undefined;
  "aria-required"?: boolean | undefined;
}

/** A field to select one of several values. */
export function Select({ options, id, name, value, defaultValue, placeholder, onValueChange, ...aria }: Props) {
  return (
    <BaseSelect.Root
      items={options}
      name={name}
      // An empty value is none, and shows the placeholder.
      value={value === undefined ? undefined : value || null}
      defaultValue={defaultValue}
      onValueChange={(next: string | null) => onValueChange?.(next ?? "")}
      modal={false}
    >
      <BaseSelect.Trigger id={id} className="input select" {...aria}>
        <BaseSelect.Value placeholder={placeholder} />
        <Icon name="down" />
      </BaseSelect.Trigger>
      <BaseSelect.Portal>
        <BaseSelect.Positioner
          className="menu-position"
          sideOffset={4}
          collisionPadding={8}
          alignItemWithTrigger={false}
        >
          <BaseSelect.Popup className="menu-box">
            <BaseSelect.List className="menu-list">
              {options.map((option) => (
                <BaseSelect.Item key={option.value} value={option.value} className="menu-item">
                  <span className="menu-check">
                    <BaseSelect.ItemIndicator>
                      <Icon name="check" />
                    </BaseSelect.ItemIndicator>
                  </span>
                  <BaseSelect.ItemText className="menu-words">{option.label}</BaseSelect.ItemText>
                </BaseSelect.Item>
              ))}
            </BaseSelect.List>
          </BaseSelect.Popup>
        </BaseSelect.Positioner>
      </BaseSelect.Portal>
    </BaseSelect.Root>
  );
}
