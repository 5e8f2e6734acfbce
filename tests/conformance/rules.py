# SPDX-License-Identifier: Apache-2.0
"""All rules: importing a file of rules adds its own to the list."""

import importlib

from kit import RULES

__all__ = ["RULES"]

for part in ("messages", "clients", "workers", "jobs", "hostile", "options", "later", "agreements", "admin", "watches", "groups", "progress"):
    importlib.import_module(f"rules_{part}")
