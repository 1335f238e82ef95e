"""The JSON Schemas of all formats, generated from the definitions that read and write them."""

from __future__ import annotations

from typing import Any, TypeGuard

from roofline.report.accuracy import Accuracy
from roofline.report.advice import AdviceReport
from roofline.report.cost import CostReport
from roofline.report.counters import CounterReport
from roofline.report.gate import GateReport
from roofline.report.memory import MemoryReport
from roofline.report.model import Report
from roofline.report.plan import PlanReport
from roofline.report.search import SearchReport
from roofline.report.shape import json_schema
from roofline.report.sweep import SweepReport
from roofline.report.trace import TraceReport
from roofline.spec.cluster import CLUSTER
from roofline.spec.dataflow_keys import dataflow_record
from roofline.spec.hardware import PROFILE
from roofline.spec.workload import workload_record

SCHEMAS = {
    "hardware": "a hardware profile of roofline",
    "workload": "a workload of roofline",
    "report": "a report of roofline analyze",
    "dataflow": "a dataflow of roofline",
    "cluster": "a cluster of roofline",
    "accuracy": "what roofline validate says of measured tables",
    "trace": "a trace's report of roofline ingest trace",
    "counters": "a report of roofline ingest ncu",
    "sweep": "a sweep of roofline sweep",
    "cost": "what the commands of roofline cost give",
    "memory": "what roofline memory answers",
    "advice": "what roofline advise found",
    "plan": "what roofline plan answers",
    "search": "what roofline search answers",
    "gate": "the verdict of roofline gate",
}
REPORTS: dict[str, Any] = {
    "report": Report,
    "trace": TraceReport,
    "counters": CounterReport,
    "accuracy": Accuracy,
    "sweep": SweepReport,
    "cost": CostReport,
    "memory": MemoryReport,
    "advice": AdviceReport,
    "plan": PlanReport,
    "search": SearchReport,
    "gate": GateReport,
}
"""Formats that dataclasses define."""


def schema_of(what: str) -> dict[str, Any]:
    """The JSON Schema of one format."""
    if what == "hardware":
        body = _extendable(PROFILE.json_schema())
    elif what == "workload":
        body = workload_record().json_schema()
    elif what == "cluster":
        body = _extendable(CLUSTER.json_schema())
    elif what == "dataflow":
        body = dataflow_record().json_schema()
    else:
        body = json_schema(REPORTS[what])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": SCHEMAS[what], **body}


def _extendable(schema: dict[str, Any]) -> dict[str, Any]:
    """A profile that extends another may leave out, at any depth, what it takes from it; figures stay whole."""
    complete = {"not": {"required": ["extends"]}, **_requirements(schema)}
    return {**_optional(schema), "required": ["schema", "name"], "anyOf": [{"required": ["extends"]}, complete]}


def _is_map(schema: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(schema, dict) and schema.get("type") == "object"


def _optional(schema: dict[str, Any]) -> dict[str, Any]:
    """The same maps with nothing required."""
    found = {key: value for key, value in schema.items() if key != "required"}
    found["properties"] = {name: _optional(s) if _is_map(s) else s for name, s in schema.get("properties", {}).items()}
    if _is_map(rest := schema.get("additionalProperties")):
        found["additionalProperties"] = _optional(rest)
    return found


def _requirements(schema: dict[str, Any]) -> dict[str, Any]:
    """Only what is required of a map and of the maps in it."""
    inner = {name: found for name, s in schema.get("properties", {}).items() if _is_map(s) and (found := _requirements(s))}
    rest = schema.get("additionalProperties")
    below = _requirements(rest) if _is_map(rest) else {}
    return {
        **({"required": schema["required"]} if schema.get("required") else {}),
        **({"properties": inner} if inner else {}),
        **({"additionalProperties": below} if below else {}),
    }
