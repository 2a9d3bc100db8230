"""What holds for all tests."""

import signal

# A program that is started in the background of a script has interrupts ignored, and so have its children. Tests
# that interrupt a process would wait for ever; a handler here gives the children the default again.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
