# SPDX-License-Identifier: Apache-2.0
"""Runs a model once, or repeatedly for its times."""
