import type { Suggestion } from "./useSuggestions";

interface Props {
  id: string;
  suggestions: readonly Suggestion[];
  chosen: number;
  onTake: (value: string) => void;
}

/** Above the text: files or commands. The keys stay with the text; a press takes one. */
export function Suggestions({ id, suggestions, chosen, onTake }: Props) {
  return (
    <div id={id} className="suggestions" role="listbox" aria-label="Suggestions">
      {suggestions.map(({ value, note }, at) => (
        <div
          key={value}
          id={`${id}-${at}`}
          role="option"
          tabIndex={-1}
          aria-selected={at === chosen}
          // Before the text loses the focus.
          onMouseDown={(event) => {
            event.preventDefault();
            onTake(value);
          }}
        >
          <span className="suggestion-value">{value}</span>
          {note && <span className="soft">{note}</span>}
        </div>
      ))}
    </div>
  );
}
