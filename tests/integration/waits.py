# SPDX-License-Identifier: Apache-2.0
"""How tests in Python wait: for what they need, and where time is the subject itself. Nothing else sleeps."""

import os
import time

# How long anything may take before the test gives up: one that hangs, and not one on a machine that does much else.
PATIENCE = float(os.environ.get("LANEMQ_TEST_PATIENCE", "60"))
# Programs under a sanitizer are slower, and larger.
SANITIZED = "LANEMQ_TEST_SANITIZED" in os.environ


class Timeout(AssertionError):
    pass


def pace(seconds):
    """Lets time go by, where time is the load or the subject: a reader that is slow, a caller that comes ten times a second, a stop that
    lasts. Never to wait for what has to happen."""
    time.sleep(max(0, seconds))


def wait_until(happened, what, patience=PATIENCE, pause=0.005):
    """Polls for something that no socket tells of, and returns it."""
    deadline = time.monotonic() + patience
    while not (value := happened()):
        if time.monotonic() > deadline:
            raise Timeout(f"{what}: not within {patience} s")
        pace(pause)
    return value
