"""For all tests: Ctrl-C ends the programs that tests start, even if the tests run in the background of a shell.

A shell lets its background jobs ignore SIGINT, and child processes inherit this setting.
"""
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
