"""The JSON Schemas of all formats, generated from the definitions that read and write them."""

from __future__ import annotations

from typing import Any

from roofline.report.model import Report
from roofline.report.shape import json_schema
from roofline.spec.hardware import PROFILE
from roofline.spec.workload import workload_record

SCHEMAS = {
    "hardware": "a hardware profile of roofline",
    "workload": "a workload of roofline",
    "report": "a report of roofline analyze",
}


def schema_of(what: str) -> dict[str, Any]:
    """The JSON Schema of one format."""
    if what == "hardware":
        body = _extendable(PROFILE.json_schema())
    elif what == "workload":
        body = workload_record().json_schema()
    else:
        body = json_schema(Report)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": SCHEMAS[what], **body}


def _extendable(schema: dict[str, Any]) -> dict[str, Any]:
    """A profile that extends another may leave out what it takes from it."""
    required = schema.pop("required")
    loose = {"required": ["schema", "name", "extends"]}
    return {**schema, "anyOf": [{"required": required}, loose]}
