import { useId, type ReactNode } from "react";

import type { Field, Value } from "./form";

interface Props {
  field: Field;
  value: Value;
  problem: string | undefined;
  onChange: (value: Value) => void;
}

interface Said {
  id: string;
  "aria-invalid": boolean;
  "aria-describedby": string | undefined;
  "aria-required": boolean;
}

/** Beyond this many, a list to choose from is shorter than buttons. */
const RADIOS = 5;

/** One field of a form: its name, what it is for, the input, and what is wrong with it. */
export function FieldView({ field, value, problem, onChange }: Props) {
  const id = useId();
  const described =
    [field.description && `${id}-what`, problem && `${id}-problem`].filter(Boolean).join(" ") || undefined;
  const said: Said = {
    id,
    "aria-invalid": problem !== undefined,
    "aria-describedby": described,
    "aria-required": field.required,
  };
  const grouped = field.kind === "choices" || (field.kind === "choice" && field.choices.length <= RADIOS);
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
      {input(field, value, said, onChange)}
      {problem && (
        <p id={`${id}-problem`} className="bad" role="alert">
          {problem}
        </p>
      )}
    </>
  );
  if (field.kind === "switch") {
    return (
      <div className="field">
        <label>
          <input
            type="checkbox"
            {...said}
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

function input(field: Field, value: Value, said: Said, onChange: (value: Value) => void): ReactNode {
  const text = typeof value === "string" ? value : "";
  switch (field.kind) {
    case "switch":
      return null;
    case "text":
      if (field.format === "" && field.longest > 200 && field.longest < Infinity) {
        return (
          <textarea
            className="input"
            {...said}
            rows={2}
            value={text}
            onChange={(event) => onChange(event.target.value)}
          />
        );
      }
      return (
        <input
          className="input"
          {...said}
          type={INPUTS[field.format] ?? "text"}
          value={text}
          onChange={(event) => onChange(event.target.value)}
        />
      );
    case "number":
      return (
        <input
          className="input"
          {...said}
          inputMode={field.whole ? "numeric" : "decimal"}
          value={text}
          onChange={(event) => onChange(event.target.value)}
        />
      );
    case "json":
      return (
        <textarea
          className="input"
          {...said}
          rows={3}
          spellCheck={false}
          value={text}
          placeholder="JSON"
          onChange={(event) => onChange(event.target.value)}
        />
      );
    case "choice":
      if (field.choices.length <= RADIOS) {
        return field.choices.map((choice) => (
          <label key={choice.value} className="option">
            <input
              type="radio"
              name={said.id}
              checked={text === choice.value}
              onChange={() => onChange(choice.value)}
            />{" "}
            {choice.name}
          </label>
        ));
      }
      return (
        <select className="input" {...said} value={text} onChange={(event) => onChange(event.target.value)}>
          <option value="">Choose…</option>
          {field.choices.map((choice) => (
            <option key={choice.value} value={choice.value}>
              {choice.name}
            </option>
          ))}
        </select>
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
          {choice.name}
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
