# SPDX-License-Identifier: Apache-2.0
"""The tables of torchscan and thoplw, byte for byte as those tools print them."""
