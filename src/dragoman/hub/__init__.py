"""The hub: the journal, and the sessions of this process in it.

identity   which process this is, and whether another one lives
hub        the journal of a home folder, held open, and sessions that are kept in it
"""
