"""Sessions with agents: runtimes, sessions, runs, prompts and limits."""
