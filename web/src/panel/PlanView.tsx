import { Markdown } from "../markdown";
import type { Plan } from "../protocol";

const MARKS: Readonly<Record<string, string>> = { completed: "✓", in_progress: "●", pending: "○" };
const WORDS: Readonly<Record<string, string>> = { completed: "done", in_progress: "in progress", pending: "to do" };

/** The agent's plan and its progress. */
export function PlanView({ plan }: { plan: Plan }) {
  const done = plan.entries.filter((entry) => entry.status === "completed").length;
  return (
    <div className="plan">
      {plan.entries.length > 0 && (
        <p className="plan-head">
          {done} of {plan.entries.length} done
          <progress max={plan.entries.length} value={done} aria-label="Progress of the plan" />
        </p>
      )}
      <ol>
        {plan.entries.map((entry, at) => (
          <li key={at} data-status={entry.status}>
            <span className="plan-mark" role="img" aria-label={WORDS[entry.status] ?? entry.status}>
              {MARKS[entry.status] ?? "○"}
            </span>
            <Markdown text={entry.content} />
            {entry.priority === "high" && entry.status !== "completed" && <span className="soft">high</span>}
          </li>
        ))}
      </ol>
      {plan.markdown !== null && <Markdown text={plan.markdown} />}
    </div>
  );
}
