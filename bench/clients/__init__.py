"""The programs being measured, one for each contender, each run in a process of its own (clean memory, clean imports).

Each prints one line of JSON. They import the standard library and the thing they measure, nothing else
of the bench but `report`: one of them runs in the peer's environment, where nothing else is installed.
"""
