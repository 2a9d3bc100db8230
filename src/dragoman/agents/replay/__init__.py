"""The replay agent: plays a recorded session back to any ACP client, without a model or an account.

    recording.py  recordings and journal exports as segments of frames (pure)
    frames.py     frames of the recording and of the client: compared, and with ids and folders substituted (pure)
    playback.py   one session while it is played (pure)
    player.py     the ACP side: methods, sessions, answers; and `serve` on a transport

`dragoman replay` starts it; `dragoman.testing.recorded` plays a recording in a test. docs/replay.md describes what is
played, when, and what is an error.
"""
