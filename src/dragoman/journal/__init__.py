"""Where records live: every frame of every connection, and the rows that are made of them.

`store.Journal` is the contract, `sqlite` and `memory` keep it. Frames become rows in `SessionRecord`, and reach a
journal through `recorder.Recorder`. docs/journal.md describes the file.
"""
