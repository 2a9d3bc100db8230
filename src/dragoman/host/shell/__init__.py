"""Reads command lines for the policy: the programs that would run, and the files that would be written.

words               quotes and expansions
redirections        redirections and here-documents
grammar             a strict reader of what common shells read alike
tree                a second reader (tree-sitter), which must agree
wrappers            programs that run other programs (`data/wrappers.toml`)
indirect_execution  builtins and options that run something unseen (`data/indirect_execution.toml`)
reader              `read_script`: all of it together, for one line
"""
