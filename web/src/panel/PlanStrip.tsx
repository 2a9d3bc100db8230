import { useState } from "react";

import type { Plan } from "../protocol";
import { PlanView } from "./PlanView";
import "./panel.css";

/** The plan's progress above the composer while the agent works; expands to the whole plan. */
export function PlanStrip({ plans, working = true }: { plans: readonly Plan[]; working?: boolean }) {
  const [open, setOpen] = useState(false);
  const plan = working ? plans.find((one) => one.entries.some((entry) => entry.status !== "completed")) : undefined;
  if (!plan) return null;
  const done = plan.entries.filter((entry) => entry.status === "completed").length;
  const now =
    plan.entries.find((entry) => entry.status === "in_progress") ??
    plan.entries.find((entry) => entry.status === "pending");
  return (
    <div className="plan-strip">
      <button type="button" className="fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span className="step-title">
          Plan {done}/{plan.entries.length}: {now?.content}
        </span>
        <progress max={plan.entries.length} value={done} aria-label="Progress of the plan" />
      </button>
      {open && <PlanView plan={plan} />}
    </div>
  );
}
