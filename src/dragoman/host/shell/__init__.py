"""Reads command lines for the policy: the commands that would run, and the files that would be read and written.

The steps, in order:

words     quotes and expansions
grammar   a strict reader of what common shells read alike: lists, pipes, groups, redirections, here-documents
programs  the commands that a command runs by its arguments, and commands that run something unseen (`programs.toml`)
reader    `read_script`: all of it for one line, checked by a second reader (tree-sitter)

`host/policy/effects.py` makes effects of the result, and `host/policy/policy.py` judges them.
"""
