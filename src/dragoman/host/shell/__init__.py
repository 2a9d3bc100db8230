"""Command lines, read for the policy: which programs would run, and which files would be written.

words         the smallest parts: quotes, expansions
redirections  redirections and here-documents, beside words
grammar       a strict reader of what common shells read alike
tree          a second reader, which must agree
wrappers      programs that run other programs
suspects      builtins and options that do
reader        all of it, for a line: `read_script`
typed         a line that is only handed to a shell
"""
