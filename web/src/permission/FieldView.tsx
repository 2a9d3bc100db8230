import { useId, type ReactNode } from "react";

import { Select } from "../ui/Select";
import type { FormField } from "../protocol";
import type { Value } from "./form";

interface Props {
  field: FormField;
  value: Value;
  /** The server's message: the rest of a sentence about the field. */
  error: string | undefined;
  onChange: (value: Value) => void;
}

interface InputProps {
  id: string;
  "aria-invalid": boolean;
  "aria-describedby": string | undefined;
  "aria-required": boolean;
}

/** Beyond this many, a list to choose from is shorter than buttons. */
const MAX_RADIOS = 5;
/** A text that may be longer gets several lines. */
const MAX_LINE_CHARS = 200;

/** A field of a form: name, description, input and error. */
export function FieldView({ field, value, error, onChange }: Props) {
  const id = useId();
  const described = [field.description && `${id}-what`, error && `${id}-error`].filter(Boolean).join(" ") || undefined;
  const inputProps: InputProps = {
    id,
    "aria-invalid": error !== undefined,
    "aria-describedby": described,
    "aria-required": field.required,
  };
  const grouped = field.kind === "choices" || (field.kind === "choice" && field.choices.length <= MAX_RADIOS);
  const name = (
    <>
      {field.title}
      {field.required ? "" : <span className="soft"> (optional)</span>}
    </>
  );
  const rest = (
    <>
      {field.description && (
        <p id={`${id}-what`} className="soft">
          {field.description}
        </p>
      )}
      {input(field, value, inputProps, onChange)}
      {error && (
        <p id={`${id}-error`} className="bad" role="alert">
          This {error}.
        </p>
      )}
    </>
  );
  if (field.kind === "boolean") {
    return (
      <div className="field">
        <label>
          <input
            type="checkbox"
            {...inputProps}
            checked={value === true}
            onChange={(event) => onChange(event.target.checked)}
          />{" "}
          {field.title}
        </label>
        {field.description && (
          <p id={`${id}-what`} className="soft">
            {field.description}
          </p>
        )}
      </div>
    );
  }
  if (grouped) {
    return (
      <fieldset className="field">
        <legend>{name}</legend>
        {rest}
      </fieldset>
    );
  }
  return (
    <div className="field">
      <label htmlFor={id}>{name}</label>
      {rest}
    </div>
  );
}

function input(field: FormField, value: Value, inputProps: InputProps, onChange: (value: Value) => void): ReactNode {
  const text = typeof value === "string" ? value : "";
  switch (field.kind) {
    case "boolean":
      return null;
    case "text":
      if (field.format === null && (field.max_length ?? 0) > MAX_LINE_CHARS) {
        return (
          <textarea
            className="input"
            {...inputProps}
            rows={2}
            value={text}
            onChange={(event) => onChange(event.target.value)}
          />
        );
      }
      return (
        <input
          className="input"
          {...inputProps}
          type={INPUTS[field.format ?? ""] ?? "text"}
          value={text}
          onChange={(event) => onChange(event.target.value)}
        />
      );
    case "number":
      return (
        <input
          className="input"
          {...inputProps}
          inputMode={field.whole ? "numeric" : "decimal"}
          value={text}
          onChange={(event) => onChange(event.target.value)}
        />
      );
    case "choice":
      if (field.choices.length <= MAX_RADIOS) {
        return field.choices.map((choice) => (
          <label key={choice.value} className="option">
            <input
              type="radio"
              name={inputProps.id}
              checked={text === choice.value}
              onChange={() => onChange(choice.value)}
            />{" "}
            {choice.title}
          </label>
        ));
      }
      return (
        <Select
          {...inputProps}
          value={text}
          placeholder="Choose…"
          options={field.choices.map((choice) => ({ value: choice.value, label: choice.title }))}
          onValueChange={onChange}
        />
      );
    case "choices": {
      const chosen = Array.isArray(value) ? (value as readonly string[]) : [];
      return field.choices.map((choice) => (
        <label key={choice.value} className="option">
          <input
            type="checkbox"
            checked={chosen.includes(choice.value)}
            onChange={(event) =>
              onChange(event.target.checked ? [...chosen, choice.value] : chosen.filter((one) => one !== choice.value))
            }
          />{" "}
          {choice.title}
        </label>
      ));
    }
  }
}

const INPUTS: Readonly<Record<string, string>> = {
  email: "email",
  uri: "url",
  date: "date",
  "date-time": "datetime-local",
};
