"""Text files inside the workspace, for `fs/*`.

files       the files of a session, and the interface for an editor's unsaved text
text_files  files on disk: resolved, read and written
"""
