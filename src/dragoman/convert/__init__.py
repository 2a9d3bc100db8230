"""Our values in the words of other libraries, for programs that stand on these."""
