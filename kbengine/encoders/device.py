"""Where and in what the encoders compute."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import torch

from kbengine.errors import InvalidOptionError

DTypeChoice = Literal["auto", "float32", "bfloat16"]
DTYPES: tuple[DTypeChoice, ...] = get_args(DTypeChoice)

# Products in bfloat16 against float32: faster on Zen 4 (AVX-512) and on a Xeon with AMX; on two cores of a Xeon that
# shows AVX-512 alone 138 against 240 GFLOP/s. Without any of the instructions it is far slower.
_FAST_BF16 = "amx_bf16"
_FAST_BF16_BUT_FOR_INTEL = "avx512_bf16"


def choose_device(choice: str) -> torch.device:
    """Return the device meant: "auto" is CUDA where there is one, else the CPU.

    Raises:
        InvalidOptionError: the device has no such name or is not there.
    """
    if choice == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(choice)
    except RuntimeError as e:
        raise InvalidOptionError(f"device is {choice!r}, wanted auto, cpu or cuda[:number]") from e
    if device.type not in ("cpu", "cuda"):
        raise InvalidOptionError(f"device is {choice!r}, wanted auto, cpu or cuda[:number]")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InvalidOptionError(
            f"device is {choice!r}, this machine shows {torch.cuda.device_count()} CUDA devices; use cpu or auto"
        )
    return device


def choose_dtype(choice: str, device: torch.device) -> torch.dtype:
    """Return what training and passages are computed in: "auto" is bfloat16 where that is faster, else float32.

    Raises:
        InvalidOptionError: the dtype has no such name.
    """
    if choice not in DTYPES:
        raise InvalidOptionError(f"dtype is {choice!r}, wanted one of {', '.join(DTYPES)}")
    if choice == "auto":
        is_faster = torch.cuda.is_bf16_supported() if device.type == "cuda" else cpu_is_faster_in_bf16()
        return torch.bfloat16 if is_faster else torch.float32
    return torch.bfloat16 if choice == "bfloat16" else torch.float32


def cpu_is_faster_in_bf16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Return whether bfloat16 instructions (AMX or AVX-512), as Linux lists them, pay here; false where unknown."""
    is_intel = False
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == "vendor_id":
                    is_intel = value.strip() == "GenuineIntel"
                elif name.strip() == "flags":
                    flags = set(value.split())
                    return _FAST_BF16 in flags or (_FAST_BF16_BUT_FOR_INTEL in flags and not is_intel)
    except OSError:
        return False
    return False
