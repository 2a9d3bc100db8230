import { Component } from "react";
import type { ReactNode } from "react";

import { Button } from "./Button";

interface Props {
  /** Another place in the page: what failed in the last one is forgotten. */
  place: string;
  children: ReactNode;
}

interface State {
  place: string;
  problem: Error | null;
}

/** Keeps a defect of one view from taking the page with it. */
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
