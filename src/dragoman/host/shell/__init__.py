"""Command lines, read for the policy: which programs would run, and which files would be written.

words      the smallest parts: quotes, expansions
grammar    a strict reader of what common shells read alike
tree       a second reader, which must agree
wrappers   programs that run other programs
suspects   builtins and options that do
reader     all of it: `read_script` for a line, `read_argv` for a list of words
"""
