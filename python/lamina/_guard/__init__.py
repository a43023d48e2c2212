# SPDX-License-Identifier: Apache-2.0
"""What a run may disturb and how it is put back: generators, gradients, compiled code, modules."""
