import { useId } from "react";
import type { ComponentProps, ReactNode } from "react";

import { Select } from "./Select";
import type { SelectOption } from "./Select";

interface Props {
  label: string;
  hint?: ReactNode;
  error?: string | undefined;
}

/** An input with its label, and a hint or an error below. */
export function Field({ label, hint, error, ...rest }: ComponentProps<"input"> & Props) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input id={id} className="input" aria-describedby={`${id}-hint`} aria-invalid={error !== undefined} {...rest} />
      <Below id={`${id}-hint`} hint={hint} error={error} />
    </div>
  );
}

interface SelectProps extends Props {
  options: readonly SelectOption[];
  name?: string;
  value?: string;
  defaultValue?: string;
  placeholder?: string;
  onValueChange?: (value: string) => void;
}

export function SelectField({ label, hint, error, ...rest }: SelectProps) {
  const id = useId();
  return (
    <div className="field">
      <label id={`${id}-label`} htmlFor={id}>
        {label}
      </label>
      <Select id={id} aria-labelledby={`${id}-label`} aria-describedby={`${id}-hint`} {...rest} />
      <Below id={`${id}-hint`} hint={hint} error={error} />
    </div>
  );
}

export function AreaField({ label, hint, error, ...rest }: ComponentProps<"textarea"> & Props) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <textarea id={id} className="input" aria-describedby={`${id}-hint`} {...rest} />
      <Below id={`${id}-hint`} hint={hint} error={error} />
    </div>
  );
}

function Below({ id, hint, error }: { id: string; hint: ReactNode; error: string | undefined }) {
  return (
    <p id={id} className={error === undefined ? "hint" : "hint bad"}>
      {error ?? hint}
    </p>
  );
}
