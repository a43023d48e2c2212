# SPDX-License-Identifier: Apache-2.0
"""Running a model once, or again and again for its times."""
