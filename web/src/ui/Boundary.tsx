import { Component } from "react";
import type { ReactNode } from "react";

import { Button } from "./Button";

interface Props {
  /** A key for the view; a new one clears the error. */
  place: string;
  /** Shown in place of the view that failed; without one, the error and a way to reload the page. */
  fallback?: ReactNode;
  children: ReactNode;
}

interface State {
  place: string;
  problem: Error | null;
}

/** Contains an error of one view, so that the rest of the page keeps working. */
export class Boundary extends Component<Props, State> {
  override state: State = { place: this.props.place, problem: null };

  static getDerivedStateFromError(problem: Error): Partial<State> {
    return { problem };
  }

  static getDerivedStateFromProps({ place }: Props, state: State): State | null {
    return place === state.place ? null : { place, problem: null };
  }

  override render(): ReactNode {
    const { problem } = this.state;
    if (problem === null) return this.props.children;
    if (this.props.fallback !== undefined) return this.props.fallback;
    return (
      <div className="broken" role="alert">
        <h1>This view crashed</h1>
        <p>
          Your sessions are not affected: they run in the server. Reload the page; if that does not help, please report
          this error:
        </p>
        <pre>{problem.stack ?? String(problem)}</pre>
        <Button look="primary" onClick={() => location.reload()}>
          Reload page
        </Button>
      </div>
    );
  }
}
