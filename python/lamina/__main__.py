# SPDX-License-Identifier: Apache-2.0
"""``python -m lamina``: the command."""

from __future__ import annotations

import sys

from ._command.cli import main

if __name__ == "__main__":
    sys.exit(main())
