"""What a program means. Knows no target, no device and no generator."""

import time

LOADED = time.time_ns()
"""When the first module of Tack was loaded: files that changed later are not those that run."""
