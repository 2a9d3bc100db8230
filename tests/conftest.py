"""What holds for all tests."""

import signal

from hypothesis import settings

# A program that is started in the background of a script has interrupts ignored, and so have its children. Tests
# that interrupt a process would wait for ever; a handler here gives the children the default again.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No example has a time limit: on a busy machine any of them can be slow, and a time is no property of the code.
# Sixty of them: `make test` has five minutes for some seven thousand tests; who hunts a defect asks for more.
settings.register_profile("dragoman", deadline=None, max_examples=60)
settings.load_profile("dragoman")
