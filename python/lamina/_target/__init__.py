# SPDX-License-Identifier: Apache-2.0
"""A model and its input, from the texts of a command line."""
