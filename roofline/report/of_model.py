"""What the report of a workload file with a model must say beside its steps, which do not know what they are of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from roofline.hardware.profile import Hardware
from roofline.report.model import Notice, Report
from roofline.spec.source import Source

_KEY = re.compile(r"(?<![\w.-])model[\"']?\s*:")
"""A key of that name somewhere: any file with a model has one, few others do."""
ELSEWHERE = "W025"
"""Code of the warning that a rank is timed on a device which its cluster does not have."""


def noticed(report: Report, source: Source, overrides: Sequence[str], hardware: Hardware | None) -> Report:
    """The report with what must be known of the model of that text, which its steps were made of; the report itself where there is none.

    Raises:
        InputError: what is wrong with the model's keys, each at its place.
    """
    if not _KEY.search(source.text):  # a workload of steps needs nothing of what reads models, nor the time to import it
        return report
    found = tuple(_notices(source, overrides, hardware))
    return replace(report, warnings=(*report.warnings, *found)) if found else report


def _notices(source: Source, overrides: Sequence[str], hardware: Hardware | None) -> Iterator[Notice]:
    """Tokens beyond the positions learnt, and times of another device than that of the cluster that the file names.

    The latter may be meant, such as of a calibrated profile of that very device.
    """
    from roofline.models.positions import BEYOND, beyond
    from roofline.spec.model_key import job_of_file

    asked = job_of_file(source, overrides)
    if asked is None:
        return
    model, job, cluster = asked
    yield from (Notice(code=BEYOND, message=said) for said in beyond(model, job))
    if cluster is not None and hardware is not None and hardware.name not in (cluster.name, cluster.device.name):
        rank = f"steps are of a rank on {cluster.name}, whose devices are {cluster.device.name}"
        yield Notice(code=ELSEWHERE, message=f"{rank}, and times of {hardware.name}")
