"""What an agent may do, as data.

rules       one rule, and how it is read; the verdict that a policy gives
effects       all that a request does
matching    which rule is about which effect; globs has the patterns
access      the four presets, as rules
policy      the rules of all layers, and what they answer (pure)
remembered  what a person answered for good
trust       a workspace's own rules, which count only while the user trusts them
sources     the rules that stand before a session begins, and where they come from
rulebook    the rules of one session, as they stand at this moment
kept        a small file of ours in the home folder
"""
