"""Fitted sets of a profile: read late, replaced whole, of the device they were fitted on, wrong ones told in their place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from roofline.errors import InputError
from roofline.report.published import schema_of
from roofline.spec.fitted import complete, take_sets
from roofline.spec.hardware import load_hardware
from roofline.spec.load import load_any
from roofline.spec.source import Source
from tests.fit.fakes import PROFILE, fake, set_text, toy

__all__ = ["fake"]
pytestmark = pytest.mark.usefixtures("fake")
FITS = Draft202012Validator(schema_of("hardware"))
ANY, OWN = "fake.any.torch.bf16", "fake.softmax.torch.bf16"


def problems(text: str, folder: Path) -> list[str]:
    """What is said of a profile, all of it read."""
    (folder / "toy.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as raised:
        load_any(str(folder / "toy.yaml"))
    return [f"{p.line}:{p.column}: {p.message}" for p in raised.value.problems]


BASE = PROFILE + "\nfitted:\n" + set_text(ANY)
FIRST = PROFILE.count("\n") + 3
"""Line of the set's name."""


def test_a_set_as_it_stands(tmp_path: Path) -> None:
    found = toy(tmp_path, set_text(ANY, fixed="2.5e-06", share="0.75")).fitted[ANY]
    assert (found.name, found.device, found.kind, found.source, found.date, found.rows) == (ANY, "toy", "fitted", "sheet", "2026-11-29", 7)
    assert found.values == {"fixed_s": 2.5e-6, "share": 0.75, "late_s": 0}
    assert found.band == {"launch": (0.5, 2), "memory": (0.9, 1.1)}


def test_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    """A wrong set does no harm to who needs another; whoever checks the file hears of it."""
    hardware = toy(tmp_path, set_text(ANY), set_text("fake.bad", share="2"))
    assert list(hardware.fitted) == [ANY, "fake.bad"]
    assert hardware.fitted[ANY].rows == 7
    with pytest.raises(InputError, match=r"2 is out of range: at least 0\.05 and at most 1"):
        hardware.fitted["fake.bad"]
    with pytest.raises(InputError, match="out of range"):
        load_any(str(tmp_path / "toy.yaml"))


@pytest.mark.parametrize("style", ["block", "braces", "json", "quoted", "anchored", "comments"])
def test_every_way_to_write_them_reads_alike(style: str, tmp_path: Path) -> None:
    expected = toy(tmp_path, set_text(ANY), set_text(OWN)).fitted
    text = BASE + set_text(OWN)
    whole = yaml.load(text, yaml.BaseLoader)
    if style == "braces":
        text = PROFILE + "fitted: " + json.dumps(whole["fitted"]).replace('"', "") + "\n"
    elif style == "json":
        text = json.dumps(yaml.safe_load(text.replace("2026-11-29", "'2026-11-29'")))
    elif style == "quoted":
        text = text.replace("fitted:\n", '"fitted":\n', 1).replace("product: Acme Toy", 'product: "Acme Toy"')
    elif style == "anchored":
        text = text.replace("rows: 7", "rows: &n 7", 1).replace("rows: 7", "rows: *n")
    elif style == "comments":
        text = text.replace("fitted:\n", "fitted: # of the tables\n\n# here\n  # and here\n", 1)
    path = tmp_path / f"other.{'json' if style == 'json' else 'yaml'}"
    path.write_text(text, encoding="utf-8")
    assert dict(load_hardware(str(path)).fitted) == dict(expected)


def test_sets_are_cut_out_of_a_plain_file(tmp_path: Path) -> None:
    """So that their numbers cost nothing where no estimate asks for them; places after them stay right."""
    node, sets = take_sets(Source("toy.yaml", BASE + set_text(OWN) + "notes: below\n"))
    assert list(sets) == [ANY, OWN]
    assert all(s.entry is None for s in sets.values())
    assert "fitted" not in node.entries
    assert node.entries["notes"].key.mark.line == (BASE + set_text(OWN)).count("\n") + 1
    assert sets[OWN].parsed().key.mark.line == FIRST + 7


WRONG = [
    ("fake.any.torch.bf16:", "fak.any:", ["0:3: 'fak.any' is of no model; did you mean 'fake'?"]),
    (
        "fixed_s: 5.0e-6",
        "fixed: 5.0e-6",
        [
            "6:17: the map of parameters of 'fake.any.torch.bf16' lacks 'fixed_s'",
            "6:18: unknown key 'fixed' in the map of parameters of 'fake.any.torch.bf16'; did you mean 'fixed_s'?",
        ],
    ),
    ("fixed_s: 5.0e-6, ", "", ["6:17: the map of parameters of 'fake.any.torch.bf16' lacks 'fixed_s'"]),
    ("fixed_s: 5.0e-6", "fixed_s: 5", ["6:27: 5 is out of range: at least 1e-07 and at most 0.001"]),
    ("fixed_s: 5.0e-6", "fixed_s: fast", ["6:27: 'fast' is not a number"]),
    ("parameters: {fixed_s: 5.0e-6, share: 0.5, late_s: 0}", "parameters: 5", ["6:17: expected parameters as a map, found '5'"]),
    ("source: sheet\n    date", "source: sheat\n    date", ["2:13: source 'sheat' is not a key of sources; did you mean 'sheet'?"]),
    ("    source: sheet\n    date", "    date", ["1:5: a parameter set lacks 'source'"]),
    ("    date: 2026-11-29\n", "", ["1:5: a parameter set lacks 'date'"]),
    ("kind: fitted", "kind: guessed", ["1:11: unknown value 'guessed'; known: fitted"]),
    ("2026-11-29", "29.11.2026", ["3:11: '29.11.2026' is no date; write it as 2026-11-29"]),
    ("rows: 7", "rows: 0", ["4:11: 0 is out of range: at least 1"]),
    ("memory: [0.9, 1.1]", "memory: [1.1, 0.9]", ["5:38: the lower end 1.1 is above the upper one 0.9"]),
    ("memory: [0.9, 1.1]", "memory: 0.9", ["5:38: expected the two ends of a band, such as [0.9, 1.1]"]),
    ("memory: [0.9, 1.1]", "memry: [0.9, 1.1]", ["5:30: unknown key 'memry' in a band; did you mean 'memory'?"]),
    ("rows: 7", "rows: 7\n    colour: red", ["5:5: unknown key 'colour' in a parameter set"]),
]


@pytest.mark.parametrize(("right", "wrong", "said"), WRONG)
@pytest.mark.parametrize("eager", [False, True])
def test_mistakes_are_told_in_their_place(right: str, wrong: str, said: list[str], eager: bool, tmp_path: Path) -> None:
    """Lines counted from the set's name; the same whether a set is parsed alone or with the whole file."""
    assert right in BASE
    text = BASE.replace(right, wrong)
    found = problems(text.replace("fitted:\n", '"fitted":\n', 1) if eager else text, tmp_path)
    places = [(int(s.split(":")[0]) + FIRST, s.split(":", 1)[1]) for s in said]
    assert len(found) == len(said), found
    assert all(f.startswith(f"{line}:{rest}") for f, (line, rest) in zip(found, places, strict=True)), found


def test_all_mistakes_of_all_sets_come_at_once(tmp_path: Path) -> None:
    assert len(problems(BASE.replace("rows: 7", "rows: x") + set_text("other.any") + set_text(OWN, share="9"), tmp_path)) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fitted: 5\n", "expected parameter sets by name, found '5'"),
        ("fitted: []\n", "expected parameter sets by name, found a list"),
        ("fitted:\n", "expected parameter sets by name, found nothing"),
        ("fitted:\n" + set_text(ANY) + set_text(ANY), f"key '{ANY}' stands twice"),
        ("fitted:\n" + set_text(ANY) + "fitted:\n" + set_text(OWN), "key 'fitted' stands twice"),
        ("fitted:\n" + set_text(ANY) + '"fitted":\n' + set_text(OWN), "key 'fitted' stands twice"),
        ("priors: [h100-sxn]\n", "unknown hardware profile 'h100-sxn'; did you mean 'h100-sxm'"),
        ("priors: h100-sxm\n", "expected a list, found 'h100-sxm'"),
    ],
)
def test_what_is_no_map_of_sets_is_refused_when_loaded(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(PROFILE + text)
    with pytest.raises(InputError) as raised:
        load_hardware(str(tmp_path / "toy.yaml"))
    assert said in str(raised.value)


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where profiles are found by name."""
    (tmp_path / "hardware_specs").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hardware_specs"


def extending(folder: Path, name: str, base: str, *sets: str, more: str = "") -> None:
    (folder / f"{name}.yaml").write_text(
        f"schema: 1\nname: {name}\nextends: {base}\n{more}" + ("fitted:\n" + "".join(sets) if sets else "")
    )


def test_an_inherited_set_keeps_its_device_and_an_own_one_replaces_it_whole(specs: Path) -> None:
    toy(specs, set_text(ANY, share="0.25"), set_text(OWN))
    extending(specs, "second", "toy", set_text(ANY, share="0.75").replace("    band: {launch: [0.5, 2], memory: [0.9, 1.1]}\n", ""))
    found = load_hardware("second").fitted
    assert {n: s.device for n, s in found.items()} == {ANY: "second", OWN: "toy"}
    assert (found[ANY].values["share"], found[ANY].band) == (0.75, {})


def test_a_set_may_name_its_device(specs: Path) -> None:
    toy(specs, set_text(ANY).replace("    rows", "    device: h100-sxm\n    rows"))
    assert load_hardware("toy").fitted[ANY].device == "h100-sxm"


def test_priors_serve_where_there_is_no_own_set(specs: Path) -> None:
    """The first of them that has one, what it extends included, but not what it takes from others itself."""
    toy(specs, set_text(ANY, share="0.1"), set_text("fake.deep", share="0.3"), name="oldest")
    extending(specs, "older", "oldest", set_text(ANY, share="0.2"), more="priors: [other]\n")
    toy(specs, set_text(OWN, share="0.4"), set_text(ANY, share="0.9"), set_text("fake.far"), name="other")
    (specs / "new.yaml").write_text(
        PROFILE.replace("name: toy", "name: new") + "priors: [older, other, new]\nfitted:\n" + set_text(OWN, share="0.8")
    )
    found = load_hardware("new")
    assert list(found.fitted) == [OWN]
    assert {n: (s.values["share"], s.device) for n, s in found.priors.items()} == {
        ANY: (0.2, "older"),
        "fake.deep": (0.3, "oldest"),
        "fake.far": (0.5, "other"),
    }
    (specs / "new.yaml").write_text(PROFILE.replace("name: toy", "name: new") + "priors: [older]\n")
    assert "fake.far" not in load_hardware("new").priors


def test_circles_of_priors_are_harmless(specs: Path) -> None:
    (specs / "toy.yaml").write_text(PROFILE + "priors: [second]\nfitted:\n" + set_text(ANY, share="0.25"))
    extending(specs, "second", "toy", set_text(OWN, share="0.75"))
    assert load_hardware("toy").priors[OWN].device == "second"
    second = load_hardware("second")
    assert (list(second.fitted), list(second.priors)) == ([ANY, OWN], [])


def test_a_wrong_prior_is_told_where_it_stands(specs: Path) -> None:
    toy(specs, set_text(ANY, share="7"), name="other")
    (specs / "toy.yaml").write_text(PROFILE + "priors: [other]\n")
    with pytest.raises(InputError, match="out of range") as raised:
        complete(load_hardware("toy").priors)
    assert raised.value.problems[0].path.endswith("other.yaml")


def test_the_schema_takes_what_the_reader_takes() -> None:
    good = yaml.safe_load(BASE + "priors: [h100-sxm]\n")
    assert [e.message for e in FITS.iter_errors(good)] == []
    for broken in (
        BASE.replace("kind: fitted", "kind: guessed"),
        BASE.replace("rows: 7\n", "rows: 7\n    colour: red\n"),
        BASE.replace("[0.9, 1.1]", "[0.9]"),
    ):
        assert broken != BASE
        assert list(FITS.iter_errors(yaml.safe_load(broken)))
