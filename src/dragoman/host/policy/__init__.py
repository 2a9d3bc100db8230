"""The policy: rules that allow or deny what an agent asks for, or ask a person.

tool_input  the paths, URLs, command line and folder in the input of a tool
effects     all effects of a request (commands are read by `host.shell`)
rules       one rule, how it is read from TOML, and the verdict of a policy
globs       patterns of paths, commands, MCP tools, hosts and names
access      the four presets, as rules
policy      the rules of all layers: which of them match an effect, and the verdict
remembered  a person's "always" and "never" answers
rulebook    the current rules of a session, the files that they come from, and the trust in a workspace's own rules
"""
