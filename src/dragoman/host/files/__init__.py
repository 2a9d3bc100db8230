"""Text files inside the workspace, as `fs/*` asks for them.

files       a session's files, and the hook for what an editor has not saved
text_files  files on disk: found, read and written
shape       line ends and byte order mark, which a write keeps
"""
