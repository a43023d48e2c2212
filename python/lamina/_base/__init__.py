# SPDX-License-Identifier: Apache-2.0
"""What all rooms use: errors, checks of arguments, counts, files, the terminal."""
