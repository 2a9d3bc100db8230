"""Native transcripts as ACP frames: what an agent wrote on disk in its own format joins the one journal.

`translator` is the contract, `frames` builds what it gives, `lines` reads what it is given. Each provider is a module
of its name here with a `PROVIDER` in it; nothing else has to change for a next one.
"""
