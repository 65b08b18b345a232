"""A resident program for the tests: returns each call's bytes in upper case."""

import os
import struct
import sys

HEADER = struct.Struct("<IQ")  # the number of the following bytes, and the number of the call


def read(size):
    parts = b""
    while len(parts) < size:
        part = os.read(3, size - len(parts))
        if not part:
            sys.exit(0)
        parts += part
    return parts


def give_back(number, value):
    left = HEADER.pack(len(value), number) + value
    while left:
        left = left[os.write(4, left):]


while True:
    size, number = HEADER.unpack(read(HEADER.size))
    value = read(size)
    if value == b"exit":
        sys.exit(0)
    give_back(number, b"x" * (2 << 20) if value == b"large" else value.upper())
