# SPDX-License-Identifier: Apache-2.0
"""What watches a run: operators, memory, values."""
