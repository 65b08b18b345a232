"""For all tests: Ctrl-C ends programs that tests start, also if the tests run in the background of a shell.

Such a shell ignores SIGINT for its background, and the programs that the tests start would inherit that.
"""
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
