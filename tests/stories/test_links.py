"""Is tensor parallelism still free, is data parallelism hidden, what do exchanges with experts allow (user stories 10, 11, 15)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

TP = ("links", "tp", "--width", "28672", "-H")
DP = ("links", "dp", "--params", "7.5e9", "--ranks", "64", "--tokens", "4096", "--mfu", "0.5")
EP = ("links", "ep", "--tokens", "32", "--copies", "9", "--hidden", "7000", "--layers", "61")


class TestTensorParallel:
    def test_alpha_and_the_limit(self, report: Any) -> None:
        """989.4 TFLOP/s over 450 GB/s is 2,199 FLOP/B, and 28,672 columns last for 13.0 of these."""
        found = report(*TP, "h100-sxm", "--link", "nvlink")
        assert found["alpha_flop_per_byte"] == pytest.approx(2198, abs=1)
        assert found["limit"] == pytest.approx(13.0, abs=0.05)
        assert found["gated_limit"] == pytest.approx(19.6, abs=0.05)

    def test_eight_devices_are_fine_and_sixteen_are_not(self, report: Any, run: Any) -> None:
        verdicts = {d["degree"]: d["hidden"] for d in report(*TP, "h100-sxm", "--link", "nvlink")["degrees"]}
        assert (verdicts[8], verdicts[16]) == (True, False)
        first = run(*TP, "h100-sxm", "--link", "nvlink").stdout.splitlines()[0]
        assert first == "Tensor parallelism is hidden up to 8 devices; the link binds at 16, 32 (F / alpha = 13.0)"

    def test_over_the_network_it_stays_in_the_node(self, report: Any, run: Any) -> None:
        found = report(*TP, "h100-sxm", "--bandwidth", "400 Gb/s")
        assert found["alpha_flop_per_byte"] == pytest.approx(19780, rel=1e-3)
        assert found["limit"] < 1.5
        assert run(*TP, "h100-sxm", "--bandwidth", "400 Gb/s").stdout.startswith("Keep tensor parallelism off this link: F / alpha = 1.4")

    def test_the_ratio_is_that_of_the_bytes_sent_by_hand(self, report: Any) -> None:
        """A token of h elements at 8 ranks: 2 x 2 h x 7/8 B over 450 GB/s, beside 4 h x 28,672 / 8 FLOP at 989.4 TFLOP/s."""
        found = report(*TP, "h100-sxm", "--link", "nvlink", "--degree", "8")["degrees"]
        assert [d["degree"] for d in found] == [8]
        assert found[0]["link_over_compute"] == pytest.approx((2 * 2 * 7 / 8 / 450e9) / (4 * 28672 / 8 / 989.4e12))

    def test_a_gated_part_has_half_as_much_to_hide_behind_again(self, report: Any) -> None:
        plain, gated = (report(*TP, "dgx-h100", *more)["degrees"] for more in ((), ("--gated",)))
        assert all(a["link_over_compute"] == pytest.approx(1.5 * b["link_over_compute"]) for a, b in zip(plain, gated, strict=True))

    def test_the_width_of_a_model_is_its_own(self, report: Any) -> None:
        config = Path(__file__).parent.parent / "data" / "hf_configs" / "llama-3-70b.json"
        found = report("links", "tp", "--model", str(config), "-H", "h100-sxm", "--link", "nvlink")
        assert found["width"] == 28672


class TestDataParallel:
    def test_bytes_and_times(self, report: Any) -> None:
        """2 x 2 B x 7.5e9 x 63/64 = 29.5 GB in 0.59 s at 50 GB/s; 4 x 7.5e9 x 4,096 FLOP at half of 989.4 TFLOP/s take 0.25 s."""
        found = report(*DP, "--bandwidth", "50 GB/s", "-H", "h100-sxm")
        assert found["sent_bytes"] == pytest.approx(29.5e9, rel=2e-3)
        assert found["link_s"] == pytest.approx(0.59, abs=0.005)
        assert found["backward_s"] == pytest.approx(0.25, abs=0.005)
        assert (found["hidden"], found["exposed_s"]) == (False, pytest.approx(found["link_s"] - found["backward_s"]))

    def test_tokens_that_a_device_needs(self, report: Any) -> None:
        """C / W = 19,788 by the rule that counts every share; 63/64 of it are sent."""
        found = report(*DP, "--bandwidth", "50 GB/s", "-H", "h100-sxm")
        assert found["tokens_needed_at_peak"] == pytest.approx(19788 * 63 / 64, rel=1e-3)
        assert found["tokens_needed"] == pytest.approx(found["tokens_needed_at_peak"] / 2)

    def test_with_as_many_tokens_it_is_hidden(self, report: Any) -> None:
        needed = report(*DP, "--bandwidth", "50 GB/s", "-H", "h100-sxm")["tokens_needed"]
        for factor, hidden in ((0.999, False), (1.001, True)):
            words = [str(needed * factor) if w == "4096" else w for w in DP]
            assert report(*words, "--bandwidth", "50 GB/s", "-H", "h100-sxm")["hidden"] is hidden

    def test_all_adapters_of_a_node_carry_an_eighth_each(self, report: Any) -> None:
        found = report(*DP, "-H", "dgx-h100")
        assert {(leg["tier"], leg["kind"]) for leg in found["legs"]} == {
            ("nvlink", "reduce_scatter"),
            ("infiniband", "all_reduce"),
            ("nvlink", "all_gather"),
        }
        assert found["link_s"] == pytest.approx(2 * 15e9 / 8 * 7 / 8 / 50e9)
        assert found["hidden"] is True

    def test_the_first_line_answers(self, run: Any) -> None:
        first = run(*DP, "--bandwidth", "50 GB/s", "-H", "h100-sxm").stdout.splitlines()[0]
        assert first == (
            "The all-reduce of 15.00 GB of gradients takes 590.6 ms and is longer than the backward pass of 248.4 ms: 342.2 ms stay exposed"
        )


class TestExperts:
    def test_deepseek_over_infiniband(self, report: Any) -> None:
        """(1 + 2) B x 32 x 9 x 7,000 at 50 GB/s: 120.96 us; twice in each of 61 layers: 14.76 ms, 67 tokens/s."""
        found = report(*EP, "--bandwidth", "50 GB/s", "-H", "h100-sxm")
        assert (found["dispatch_bytes"], found["combine_bytes"]) == (32 * 9 * 7000, 2 * 32 * 9 * 7000)
        assert found["exchange_s"] == pytest.approx(120.96e-6)
        assert found["token_s"] == pytest.approx(14.76e-3, abs=0.005e-3)
        assert int(found["tokens_per_s_per_user"]) == 67

    def test_deepseek_over_nvl72(self, report: Any) -> None:
        found = report(*EP, "--link", "nvlink", "-H", "gb200-nvl72")
        assert found["token_s"] == pytest.approx(0.82e-3, abs=0.005e-3)
        assert found["tokens_per_s_per_user"] == pytest.approx(1200, rel=0.02)

    def test_the_arithmetic_is_shown(self, run: Any) -> None:
        said = run(*EP, "--bandwidth", "50 GB/s", "-H", "h100-sxm").stdout
        assert "Dispatch 2.016 MB and combine 4.032 MB for 32 tokens x 9 copies x 7,000 elements: 121.0" in said
        assert "x 61 layers = 14.76 ms" in said

    def test_the_width_of_the_model_makes_a_little_more(self, report: Any) -> None:
        """Published with 7,000 elements; the model has 7,168: 123.86 us."""
        words = ["7168" if w == "7000" else w for w in EP]
        assert report(*words, "--bandwidth", "50 GB/s", "-H", "h100-sxm")["exchange_s"] == pytest.approx(123.86e-6, rel=1e-4)

    def test_a_limit_of_nodes_halves_what_crosses(self, report: Any) -> None:
        """8 copies to at most 4 of 8 nodes."""
        words = ["8" if w == "9" else w for w in EP]
        free, limited = (report(*words, "--ranks", "64", *more, "-H", "dgx-h100") for more in ((), ("--node-limit", "4")))
        crossing = [[leg["sent_bytes"] for leg in found["legs"] if leg["tier"] == "infiniband"] for found in (free, limited)]
        assert crossing[1] == [half / 2 for half in crossing[0]]

    def test_the_fullest_rank_sets_the_pace(self, report: Any, run: Any) -> None:
        """A quarter more to it is a quarter longer: 151.2 us; over rails the ports of its node share that."""
        found = report(*EP, "--imbalance", "1.25", "--bandwidth", "50 GB/s", "-H", "h100-sxm")
        assert found["exchange_s"] == pytest.approx(1.25 * 120.96e-6)
        even, loaded = (report(*EP, "--ranks", "64", *more, "-H", "dgx-h100")["legs"] for more in ((), ("--imbalance", "1.25")))
        assert [b["sent_bytes"] / a["sent_bytes"] for a, b in zip(even, loaded, strict=True)] == pytest.approx([1.25, 1] * 2)
        said = run(*EP, "--imbalance", "1.25", "--bandwidth", "50 GB/s", "-H", "h100-sxm").stdout
        assert "x 7,000 elements x 1.25 on the fullest rank: 151.2" in said

    def test_a_single_rank_sends_nothing(self, report: Any, run: Any) -> None:
        found = report(*EP, "--ranks", "1", "-H", "dgx-h100")
        assert (found["exchange_s"], found["legs"], found["tokens_per_s_per_user"]) == (0, [], None)
        assert run(*EP, "--ranks", "1", "-H", "dgx-h100").stdout.startswith("Nothing leaves a single device")


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ((*TP, "h100-sxm"), "is a device without a network: say --link or --bandwidth, or name a cluster"),
            ((*TP, "h100-sxm", "--link", "nvlnk"), "did you mean 'nvlink'"),
            ((*EP, "-H", "dgx-h100", "--ranks", "2", "--imbalance", "3"), "the fullest of 2 ranks has at most 2 times the mean"),
            ((*TP, "dgx-h10"), "did you mean 'dgx-h100'"),
            ((*TP, "h100-sxm", "--link", "nvlink", "--bandwidth", "1 GB/s"), "give one of them"),
            ((*TP, "h100-sxm", "--bandwidth", "50"), "has no unit"),
            (("links", "tp", "-H", "dgx-h100"), "say either --model or --width"),
            ((*EP, "-H", "dgx-h100", "--node-limit", "4"), "--node-limit needs --ranks"),
            ((*DP, "-H", "dgx-h100", "--gradient-dtype", "bf61"), "did you mean 'bf16'"),
            (("links", "collective", "allreduce", "--size", "1 GB", "--ranks", "8", "-H", "dgx-h100"), "did you mean 'all_reduce'"),
            (("links", "collective", "all_reduce", "--size", "1", "--ranks", "8", "-H", "dgx-h100"), "--size: "),
        ],
    )
    def test_a_question_that_cannot_be_answered(self, run: Any, words: tuple[str, ...], said: str) -> None:
        assert said in run(*words, code=2).output
