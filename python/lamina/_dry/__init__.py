# SPDX-License-Identifier: Apache-2.0
"""Runs that compute nothing, on fake tensors."""
