"""What carries collectives between the ranks that torchrun started: the link inside a host, or the network between hosts.

A table is of one link. Ranks that lie several on each of several hosts exchange over both at once, so that their times are of neither.
"""

from __future__ import annotations

from collections.abc import Mapping

from roofline.errors import UsageError, did_you_mean
from roofline.hardware.cluster import Cluster

NETWORK = "torchrun --nnodes 2 --nproc-per-node 1 ..."


def hosts(environment: Mapping[str, str]) -> tuple[int, int]:
    """How many hosts the ranks lie on, and how many ranks on each; all on one where torchrun does not say.

    Raises:
        UsageError: hosts with different numbers of ranks.
    """
    count = int(environment.get("WORLD_SIZE", "1"))
    here = int(environment.get("LOCAL_WORLD_SIZE", count))
    if count % here:
        raise UsageError(f"{count} ranks, {here} of them on this host: give every host as many")
    return count // here, here


def carrier(environment: Mapping[str, str], cluster: Cluster | None, over: str | None) -> str | None:
    """The link that the ranks' exchanges go over: as named, else the tier of the cluster; None for the fastest of a device inside a host.

    Raises:
        UsageError: it is not told, is no tier of the cluster, or there are several.
    """
    number, here = hosts(environment)
    tiers = [t.name for t in cluster.tiers] if cluster else []
    if number > 1 and here > 1:
        said = f"{here} ranks on each of {number} hosts exchange over the link inside and the network at once"
        raise UsageError(f"{said}; start one a host to measure the network: {NETWORK}")
    if over is not None:
        if tiers and over not in tiers:
            raise UsageError(f"{cluster.name if cluster else ''} has no tier '{over}'; {did_you_mean(over, tiers)}")
        return over
    if number == 1:
        return tiers[0] if tiers else None
    if len(tiers) < 2:
        raise UsageError("the ranks lie on several hosts: name what is between them, a cluster with -H ('roofline cluster list' has all)")
    return tiers[1]
