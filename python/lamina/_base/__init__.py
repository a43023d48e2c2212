# SPDX-License-Identifier: Apache-2.0
"""For all rooms: errors, checks of arguments, counts, files, the terminal."""
