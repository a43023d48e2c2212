# SPDX-License-Identifier: Apache-2.0
"""What a run showed, as objects: the report and its parts."""
