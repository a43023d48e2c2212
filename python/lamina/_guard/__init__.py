# SPDX-License-Identifier: Apache-2.0
"""Saves and restores the state that a run may change: generators, gradients, compiled code, modules."""
