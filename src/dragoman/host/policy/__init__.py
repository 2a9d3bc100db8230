"""The policy: rules that allow or deny what an agent asks for, or ask a person.

rules       one rule, how it is read from TOML, and the verdict of a policy
effects     everything that a request would do
globs       patterns of paths, commands, MCP tools, hosts and names
matching    does a rule apply to an effect?
access      the four presets, as rules
policy      the rules of all layers, and their verdict (pure)
remembered  a person's "always" and "never" answers
trust       a workspace's own rules, which count only while the user trusts them
rulebook    the current rules of a session, and the files that they come from
"""
