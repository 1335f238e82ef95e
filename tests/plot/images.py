"""The figures of docs/plots.md: ``python -m tests.plot.images`` writes them again, a test fails when one is not current."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from typer.testing import CliRunner

from roofline.cli.app import app
from roofline.report.load import load
from roofline.report.plot.curves import curves
from roofline.report.plot.roofline import roofline
from roofline.report.plot.stages import stages_of
from roofline.report.plot.waterfall import waterfall
from roofline.report.store import load_report
from roofline.report.sweep import SweepReport

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
MEASURED = ROOT / "results" / "h200"
STEP = ("analyze", "qwen3_8b_decode", "-H", "h200-sxm")
SWEEP = ("sweep", "qwen3_8b_decode", "--set", "batch=16..512:x2", "--set", "context=1Ki,8Ki", "--tokens", "batch", "--step", "lm_head")


def figures(folder: Path) -> dict[str, str]:
    """SVG by name; what they show is measured results of the repository, or computed here and now."""
    made = []
    for i, words in enumerate((STEP, SWEEP)):
        made.append(str(folder / f"{i}.json"))
        result = CliRunner().invoke(app, ["-q", *words, "-o", made[-1]])
        assert result.exit_code == 0, result.output
    naive, flash = (load_report(str(MEASURED / f"gpt2_{which}.json")) for which in ("naive", "flash"))
    sweep = load(made[1])
    assert isinstance(sweep, SweepReport)
    return {
        "roofline": roofline(flash).svg(),
        "roofline-change": roofline(flash, naive).svg(),
        "waterfall": waterfall(stages_of(load_report(made[0]))).svg(),
        "sweep": curves(sweep).svg(),
    }


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        for name, text in figures(Path(place)).items():
            (IMAGES / f"{name}.svg").write_text(text, encoding="utf-8")
