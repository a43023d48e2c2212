# SPDX-License-Identifier: Apache-2.0
"""Memory that a process holds on GPUs."""

from __future__ import annotations

import warnings

TIMEOUT = 10  # seconds


def get_process_gpu_ram(pid: int) -> float:
    """Returns the MiB that process ``pid`` holds on all NVIDIA GPUs together, from ``nvidia-smi``; 0.0 if it
    holds none.

    If ``nvidia-smi`` is missing or fails, it warns (UserWarning) and returns 0.0.
    """
    import subprocess

    query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    try:
        table = subprocess.run(query, capture_output=True, text=True, check=True, timeout=TIMEOUT).stdout
    except (OSError, subprocess.SubprocessError) as error:
        warnings.warn(f"the GPU memory of process {pid} is not known: nvidia-smi: {error}", stacklevel=2)
        return 0.0
    lines = [line.split(",") for line in table.splitlines()]
    used = [cells[1].strip() for cells in lines if len(cells) == 2 and cells[0].strip() == str(pid)]
    held = [float(cell) for cell in used if cell.replace(".", "", 1).isdigit()]
    return float(sum(held))  # not a count: MiB on each GPU
