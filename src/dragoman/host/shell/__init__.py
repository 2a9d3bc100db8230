"""Reads command lines for the policy: the commands that would run, and the files that would be read and written.

The steps, in order:

words      quotes and expansions
grammar    a strict reader of what common shells read alike: lists, pipes, groups, redirections, here-documents
programs   what is known of programs and their options, as data (`programs.toml`)
arguments  arguments by which a program runs something unseen
wrappers   programs that run another command line
reader     `read_script`: all of it for one line, checked by a second reader (tree-sitter)

`host/policy/effects.py` makes effects of the result, and `host/policy/policy.py` judges them.
"""
