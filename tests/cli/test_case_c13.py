"""A key written twice is refused with both of its lines, in YAML and in JSON alike.

Provenance: the complaints snowflakedb/ArcticTraining#85 and rbgirshick/yacs#17 (the last value wins silently): one step has
``seq: 1024`` on line 7 and ``seq: 262144`` on line 9, and the cache is 256 times too large.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roofline.cli.app import app

YAML = """\
schema: 1
hardware: h100-sxm
dtype: bf16
steps:
  - id: attention
    op: attention
    {key}: 1024
    batch: 1
    {key}: 262144
    heads: 32
    q_len: 1
    head_dim: 128
"""

JSON = """\
{{
 "schema": 1, "dtype": "bf16",
 "steps": [
  {{
   "id": "attention",
   "op": "attention",
   "{key}": 1024,
   "batch": 1,
   "{key}": 262144,
   "heads": 32, "q_len": 1, "head_dim": 128
  }}
 ]
}}
"""


@pytest.mark.parametrize("key", ["seq", "kv_len"])
@pytest.mark.parametrize(("name", "text"), [("w.yaml", YAML), ("w.json", JSON)])
@pytest.mark.parametrize("command", [["analyze"], ["validate"], ["analyze", "-H", "h100-sxm", "--format", "json"]])
def test_a_key_written_twice_names_both_lines_and_gives_no_result(
    tmp_path: Path, command: list[str], name: str, text: str, key: str
) -> None:
    path = tmp_path / name
    path.write_text(text.format(key=key), encoding="utf-8")
    result = CliRunner().invoke(app, [command[0], str(path), *command[1:]])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert f"{path}:9:{5 if name.endswith('yaml') else 4}: key '{key}' stands twice, on line 7 and on line 9" in result.stderr


def test_written_once_the_same_file_is_analyzed(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(YAML.format(key="kv_len").replace("    kv_len: 1024\n", ""), encoding="utf-8")
    assert CliRunner().invoke(app, ["analyze", str(path)]).exit_code == 0


def test_a_report_with_a_key_twice_is_refused_by_diff(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(YAML.format(key="kv_len").replace("    kv_len: 1024\n", ""), encoding="utf-8")
    report = tmp_path / "r.json"
    CliRunner().invoke(app, ["analyze", str(path), "-o", str(report)])
    text = report.read_text(encoding="utf-8")
    tool = json.dumps(json.loads(text)["tool"])
    report.write_text(text.replace(f' "tool": {tool},\n', f' "tool": {tool},\n "tool": "another",\n'), encoding="utf-8")
    result = CliRunner().invoke(app, ["diff", str(report), str(report)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{report}:4:2: key 'tool' stands twice, on line 3 and on line 4" in result.stderr
