"""The logger ``blocksvm``: INFO for progress, WARNING for remarks.  Its one handler does nothing."""

from __future__ import annotations

import logging

LOG = logging.getLogger("blocksvm")
LOG.addHandler(logging.NullHandler())  # otherwise Python prints warnings that nobody has asked for
