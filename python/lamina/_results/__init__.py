# SPDX-License-Identifier: Apache-2.0
"""The results of a run as objects: the report and its parts."""
