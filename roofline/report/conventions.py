"""The conventions in force, in words, so that a figure is never read under another one."""

from __future__ import annotations

from roofline.hardware.profile import Hardware
from roofline.workload.workload import Workload

BYTES = {
    "compulsory": "HBM bytes count each operand of each kernel once, from and to HBM: a lower bound but for operands that stay in L2",
    "tiled": "HBM bytes include the re-reads of each kernel's own tiling, with no cache",
    "cached": "HBM bytes include the re-reads of each kernel's own tiling, filtered by L2",
}


ESTIMATE = (
    "of the library's kernels as launched, whatever tiles a step names; a row is one execution of many back to back, the total starts "
    "on an idle device with the first kernel issued; in eager execution the slower of host and device decides; the band is where 90 % "
    "of measurements fell on rows that were not fitted, kernels of one parameter set erring together and sets independently; an "
    "estimate may lie below its bound where operands stay in L2"
)


def conventions(workload: Workload, hardware: Hardware | None) -> dict[str, str]:
    """What every figure of the report means."""
    found = {
        "flop": "a multiply-add is 2 FLOP; FLOP are those executed, useful_flop those the mathematics needs",
        "intensity": "FLOP of the matrix engine over bytes, held against its ridge; of the vector lanes where there is no matrix work",
        "attention": "causal attention counts half the square; naive attention executes all of it",
        "embedding": "a lookup is 0 FLOP and reads only the rows it touches",
        "traffic": f"{workload.traffic}: {BYTES[workload.traffic]}",
        "rows": "figures of a row are those of one execution; share and totals include its repetitions",
        "overlap": "within a step all resources overlap (bound.time_s is the largest); steps run one after the other "
        "unless 'after' lets them overlap across lanes",
        "memory": "weights and caches of all repetitions, and the activations of the largest step; "
        "gradients and optimizer states are not included",
        "units": "SI without prefix; GB is 1e9 B and GiB is 2**30 B",
        "execution": f"{workload.execution}; kernels are counted as one per pass of each operator",
    }
    if hardware is not None:
        found["peaks"] = "dense peaks, one-way link bandwidth, as the profile states them"
        if hardware.fitted or hardware.priors:
            found["estimate"] = ESTIMATE
    return found
