"""The one switch for checks of the compiler by itself, and for whole tracebacks of errors about kernels."""

import os

DEBUG = os.environ.get("TACK_DEBUG", "0") not in ("", "0")
