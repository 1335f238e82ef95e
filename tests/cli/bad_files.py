"""Files that are wrong, each by one edit of a right one, with the messages that they must give.

What is replaced, by what, and all messages in their order, as ``line:column: text`` (the beginning of it where it is long).
"""

from __future__ import annotations

Case = tuple[str, str, list[str]]

WORKLOADS: list[Case] = [
    ("   k: d\n", "   kk: d\n", ["7:5: a gemm step lacks 'k'", "11:5: unknown key 'kk' in a gemm step; did you mean 'k'?"]),
    ("dtype: bf16", "dtype: bf61", ["5:8: unknown dtype 'bf61'; did you mean 'bf16' or 'fp6'?"]),
    ("schema: 1\n", "", ["1:1: a workload lacks 'schema'"]),
    ("schema: 1", "schema: 2", ["1:9: 2 is not known here; write 1"]),
    ("schema: 1", "schema: one", ["1:9: 'one' is not a number; write it in decimal digits, e.g. 1024"]),
    ("schema: 1", "schema: 1.0", ["1:9: '1.0' is not in plain digits; write 1"]),
    ("op: gemm", "op: gmem", ["8:9: unknown operator 'gmem'; did you mean 'gemm'?"]),
    ("op: gemm", "op: [gemm]", ["8:9: expected an operator, found a list"]),
    ("    op: gemm\n", "", ["7:5: a step lacks 'op'; known: "]),
    ("m: batch * seq", "m: batch * sq", ["9:8: unknown name 'sq'; did you mean 'seq'?"]),
    ("m: batch * seq", "m: batch / 3", ["9:8: expected a whole number, but the expression gives 2.66667"]),
    ("m: batch * seq", "m: 0", ["9:8: 0 is out of range: at least 1"]),
    ("m: batch * seq", "m: -4", ["9:8: -4 is out of range: at least 1"]),
    ("m: batch * seq", "m: 1e30", ["9:8: 1000000000000000019884624838656 is too large for a count (2**63 or more)"]),
    ("m: batch * seq", "m: 4096.5", ["9:8: expected a whole number, but the expression gives 4096.5"]),
    ("m: batch * seq", "m: nan", ["9:8: unknown name 'nan'; known: batch, d, seq"]),
    ("m: batch * seq", "m: inf", ["9:8: unknown name 'inf'; known: batch, d, seq"]),
    ("m: batch * seq", "m: 1/0", ["9:8: division by zero; check the value it divides by"]),
    (
        "m: batch * seq",
        "m: __import__('os')",
        ["9:8: calling '__import__' is not allowed in an expression; allowed: numbers, names, + - *"],
    ),
    ("m: batch * seq", "m: batch.real", ["9:8: attribute access is not allowed in an expression; allowed: numbers, names, + - * / //"]),
    ("m: batch * seq", "m: batch *", ["9:8: 'batch *' cannot be read as an expression; write one such as 4 * d_model"]),
    ("m: batch * seq", "m: 010", ["9:8: '010' has a leading zero; write 10 if decimal is meant"]),
    ("m: batch * seq", "m: 1_000", ["9:8: '1_000' has underscores; write 1000"]),
    ("m: batch * seq", "m: 1:30", ["9:8: '1:30' is not one number; write it in decimal digits, without ':'"]),
    ("m: batch * seq", "m: 0x10", ["9:8: '0x10' is not in decimal digits; write 16"]),
    ("m: batch * seq", "m: true", ["9:8: unknown name 'true'; known: batch, d, seq"]),
    ("m: batch * seq", "m: on", ["9:8: unknown name 'on'; known: batch, d, seq"]),
    ("m: batch * seq", "m:", ["9:7: expected a number or an expression over params, found nothing"]),
    ("m: batch * seq", "m: [1, 2]", ["9:8: expected a number or an expression over params, found a list"]),
    (
        "m: batch * seq",
        "m: 999999999999999999999999999999999999999999999999999999999999",
        ["9:8: '999999999999999999999999999999999999999999999999999999999999' has more than 40 digit"],
    ),
    ("m: batch * seq", "m: 2 ** 200", ["9:8: an exponent may be 64 at most"]),
    ("m: batch * seq", "m: 1 GB", ["9:8: '1 GB' has a unit where a plain number is wanted; write the number alone"]),
    ("repeat: 24", "repeat: 0", ["12:13: 0 is out of range: at least 1"]),
    ("repeat: 24", "repeat: 2.5", ["12:13: expected a whole number, but the expression gives 2.5"]),
    (
        "implementation: naive",
        "implementation: flesh",
        ["15:21: unknown value 'flesh'; did you mean 'flash' or 'flash1'? (known: flash, flash1, cudnn, efficient, naive)"],
    ),
    ("implementation: naive", "causal: yes", ["15:13: 'yes' is not true or false; write true or false (here true)"]),
    ("implementation: naive", "causal: 'true'", ["15:13: 'true' stands in quotes; write true without them (write true or false)"]),
    ("implementation: naive", "causal: on", ["15:13: 'on' is not true or false; write true or false (here true)"]),
    ("implementation: naive", "dropout: 1.5", ["15:14: 1.5 is out of range: at least 0 and at most 1"]),
    ("implementation: naive", "dropout: -0.1", ["15:14: -0.1 is out of range: at least 0 and at most 1"]),
    ("implementation: naive", "measured: 5", ["15:15: '5' has no unit; write the unit, e.g. '1.5 ms'"]),
    ("implementation: naive", "measured: 5 GB", ["15:15: '5 GB': 'GB' is a size in B; wanted is a time in s, e.g. '1.5 ms'"]),
    ("implementation: naive", "measured: -5 ms", ["15:15: '-5 ms' must be more than 0, e.g. '1.5 ms'"]),
    ("implementation: naive", "measured: 0 s", ["15:15: '0 s' must be more than 0, e.g. '1.5 ms'"]),
    ("implementation: naive", "after: qvk", ["15:12: step 'attention' names 'qvk', which no step before it is called; did you mean 'qkv'"]),
    (
        "implementation: naive",
        "after: attention",
        ["15:12: step 'attention' names 'attention', which no step before it is called; known: qkv"],
    ),
    ("implementation: naive", "tied_to: nope", ["15:14: step 'attention' names 'nope', which no step before it is called; known: qkv"]),
    ("id: attention", "id: qkv", ["13:9: two steps are called 'qkv' (the other on line 7); give each an id"]),
    ("id: attention", "id: total", ["13:9: step id 'total' is taken by the totals of the report"]),
    ("id: attention", "id: a b", ["13:9: step id 'a b': letters, digits, '_', '-' and '/' only"]),
    ("id: attention", "id: null", ["13:9: a value is missing; write a text, in quotes if it is meant to be empty or 'null'"]),
    ("head_dim: d / 16", "head_dim: d / 15", ["20:15: expected a whole number, but the expression gives 68.2667"]),
    ("heads: 16", "heads: 16\n    kv_heads: 5", ["13:5: heads 16 is not a multiple of kv_heads 5"]),
    ("implementation: naive", "pass: sideways", ["15:11: unknown value 'sideways'; known: backward, forward, forward+backward"]),
    ("steps:", "steps: []\nx-steps:", ["6:8: expected steps as a list with at least one step"]),
    ("steps:", "steps: {}\nx-steps:", ["6:8: expected steps as a list with at least one step"]),
    ("steps:", "stpes:", ["1:1: a workload lacks 'steps'", "6:1: unknown key 'stpes' in a workload; did you mean 'steps' or 'dtype'?"]),
    ("params: {batch: 8, seq: 1024, d: 1024}", "params: [1]", ["4:9: expected params as a map of names to numbers or expressions"]),
    (
        "params: {batch: 8",
        "params: {1a: 8",
        [
            "4:10: '1a' cannot be used in expressions: letters, digits and '_' only, no digit first",
            "9:8: unknown name 'batch'; known: d, seq",
            "16:12: unknown name 'batch'; known: d, seq",
        ],
    ),
    ("params: {batch: 8", "params: {batch: seq", ["4:17: unknown name 'seq'; none is known here"]),
    ("params: {batch: 8", "params: {batch: 8, batch: 9", ["4:20: key 'batch' stands twice, on line 4 and on line 4; keep one"]),
    ("dtype: bf16", "dtype: bf16\ndtype: fp16", ["6:1: key 'dtype' stands twice, on line 5 and on line 6; keep one"]),
    ("dtype: bf16", "<<: {dtype: bf16}", ["5:1: merge keys ('<<') are not supported; write the entries out"]),
    ("dtype: bf16", "dtype: &x bf16\nx-a: *y", ["6:6: '*y' repeats nothing: no such '&' name above; quote it if it is text"]),
    ("dtype: bf16", "dtype: !!str bf16", ["5:8: tags are not allowed; remove '!!str', or quote the text"]),
    ("dtype: bf16", "? [a]\n: 1\ndtype: bf16", ["5:3: a key must be plain text; quote it, or check for a stray '{', '[' or '?'"]),
    ("dtype: bf16", "\tdtype: bf16", ["5:1: a tab cannot indent; use spaces"]),
    ("dtype: bf16", "dtype: 'bf16", ["5:8: the quote here is never closed"]),
    ("dtype: bf16", "dtype: bf16: x", ["5:12: a second ':' cannot stand here; quote the text, or start a new line with it"]),
    ("dtype: bf16", "dtype: bf16\x07", ["5:12: the character '\\x07' is not allowed; in double quotes write it as an escape"]),
    (
        "dtype: bf16",
        "execution: lazy",
        [
            "5:12: unknown value 'lazy'; known: compiled, eager, engine, graph",
            "7:5: a step needs a dtype: give 'dtype' here or for the whole workload",
            "13:5: a step needs a dtype: give 'dtype' here or for the whole workload",
        ],
    ),
    (
        "dtype: bf16",
        "traffic: all",
        [
            "5:10: unknown value 'all'; known: cached, compulsory, tiled",
            "7:5: a step needs a dtype: give 'dtype' here or for the whole workload",
            "13:5: a step needs a dtype: give 'dtype' here or for the whole workload",
        ],
    ),
    ("attention.bound.limiter: hbm", "atention.bound.limiter: hbm", ["22:3: no step is called 'atention'; did you mean 'attention'?"]),
    (
        "attention.bound.limiter: hbm",
        "attention: hbm",
        ["22:3: 'attention' names no figure; write STEP.KEY or total.KEY, such as total.bound.time_s"],
    ),
    ("  attention.bound.limiter: hbm", "  - a", ["22:3: expected assertions as a map, such as 'attention.bound.limiter: tensor'"]),
    ("expect:", "---\nexpect:", ["21:1: a second document starts here; keep one in a file"]),
    ("hardware: h100-sxm", "hardware: h100-smx", ["3:11: unknown hardware profile 'h100-smx'; did you mean 'h100-sxm'"]),
    ("hardware: h100-sxm", "hardware: ../../x.yaml", ["3:11: unknown hardware profile '../../x.yaml'; give a file with -H"]),
]

PROFILE = """\
schema: 1
name: toy
vendor: acme
product: Acme Toy
architecture: first
match: ["Acme Toy"]
sources: {sheet: the data sheet}
constants: {lanes: 64}
processors: {label: SM, count: {value: 100, kind: datasheet, source: sheet}}
clocks:
  peak: {value: 1 GHz, kind: datasheet, source: sheet}
engines:
  tensor:
    bf16: {value: 100 TFLOP/s, per_clock: 1000, kind: datasheet, source: sheet}
  vector:
    fp32: {formula: 2 * lanes * processors * clock_peak, kind: derived, source: sheet}
  sfu: {absent: not published}
levels:
  register: {scope: processor, size: {value: 256 KiB, kind: datasheet, source: sheet}, bandwidth: {absent: unknown}}
  smem: {scope: processor, size: {value: 128 KiB, kind: datasheet, source: sheet}, bandwidth: {absent: unknown}}
  l2: {scope: device, size: {value: 32 MiB, kind: datasheet, source: sheet}, bandwidth: {absent: unknown}}
  hbm:
    scope: device
    size: {value: 64 GB, kind: datasheet, source: sheet}
    bandwidth: {value: 2 TB/s, kind: datasheet, source: sheet}
"""

PROFILES: list[Case] = [
    ("bandwidth: {value: 2 TB/s", "bandwidth: {value: 2e12", ["25:24: '2e12' has no unit; write the unit, e.g. '3.35 TB/s'"]),
    ("bandwidth: {value: 2 TB/s", "bandwidth: {value: 0 TB/s", ["25:24: '0 TB/s' must be more than 0, e.g. '3.35 TB/s'"]),
    ("bandwidth: {value: 2 TB/s", "bandwidth: {value: -2 TB/s", ["25:24: '-2 TB/s' must be more than 0, e.g. '3.35 TB/s'"]),
    ("bandwidth: {value: 2 TB/s", "bandwidth: {value: nan TB/s", ["25:24: 'nan TB/s' is not finite; write a number, e.g. '3.35 TB/s'"]),
    ("bandwidth: {value: 2 TB/s", "bandwidth: {value: inf TB/s", ["25:24: 'inf TB/s' is not finite; write a number, e.g. '3.35 TB/s'"]),
    (
        "bandwidth: {value: 2 TB/s",
        "bandwidth: {value: 1e999 TB/s",
        ["25:24: '1e999' is out of range; write a number that a computer can hold"],
    ),
    (
        "bandwidth: {value: 2 TB/s",
        "bandwidth: {value: 1e200 TB/s",
        ["25:16: 1e+212 in SI units is out of range"],
    ),
    (
        "bandwidth: {value: 2 TB/s",
        "bandwidth: {value: 2 TB",
        ["25:24: '2 TB': 'TB' is a size in B; wanted is a bandwidth in B/s, e.g. '3.35 TB/s'"],
    ),
    (
        "bandwidth: {value: 2 TB/s",
        "bandwidth: {value: 2 TFLOPS",
        ["25:24: '2 TFLOPS': 'TFLOPS' looks like a rate in FLOP/s; wanted is a bandwidth in B/s, e.g"],
    ),
    ("bandwidth: {value: 2 TB/s", "bandwidth: {value: 2 Tbps", ["25:24: '2 Tbps': unit 'Tbps' is not accepted; write Tb/s"]),
    (
        "bandwidth: {value: 2 TB/s",
        "bandwith: {value: 2 TB/s",
        ["23:5: a memory level lacks 'bandwidth'", "25:5: unknown key 'bandwith' in a memory level; did you mean 'bandwidth'?"],
    ),
    (
        "bandwidth: {value: 2 TB/s, kind: datasheet",
        "bandwidth: {value: 2 TB/s, kind: guessed",
        ["25:38: unknown value 'guessed'; known: datasheet, fitted, measured"],
    ),
    (
        "bandwidth: {value: 2 TB/s, kind: datasheet, source: sheet",
        "bandwidth: {value: 2 TB/s, kind: datasheet, source: sheat",
        ["25:57: source 'sheat' is not a key of sources; did you mean 'sheet'?"],
    ),
    ("bandwidth: {value: 2 TB/s, kind: datasheet, source: sheet", "bandwidth: {value: 2 TB/s", ["25:16: a figure lacks 'kind', 'source'"]),
    (
        "bandwidth: {value: 2 TB/s, kind: datasheet, source: sheet}",
        "bandwidth: 2 TB/s",
        ["25:16: expected a figure: {value: 3.35 TB/s, kind: datasheet, source: KEY}, {formula: EXPR"],
    ),
    (
        "value: 100 TFLOP/s",
        "value: 1000 TFLOP/s",
        ["14:11: per_clock 1000 x 100 processors x 1 GHz = 1e+14, but the peak is 1e+15: 90.0% apart"],
    ),
    ("value: 100 TFLOP/s", "value: 100 TFLOPS", ["14:19: '100 TFLOPS': unit 'TFLOPS' is not accepted; write TFLOP/s"]),
    ("    bf16:", "    bf61:", ["14:5: unknown key 'bf61'; did you mean 'bf16' or 'fp6'?"]),
    ("2 * lanes *", "2 * lines *", ["16:21: unknown name 'lines'; did you mean 'lanes'?"]),
    ("2 * lanes *", "0 * lanes *", ["16:21: the formula gives 0; a figure is above 0"]),
    ("2 * lanes *", "-2 * lanes *", ["16:21: the formula gives -1.28e+13; a figure is above 0"]),
    ("lanes: 64", "lanes: nan", ["8:20: 'nan' is not a finite number; write one with digits"]),
    ("value: 100,", "value: 0,", ["9:40: 0 is out of range: at least 1"]),
    ("value: 100,", "value: 100.5,", ["9:40: '100.5' is not a whole number; write it without a fraction"]),
    (
        "{value: 100, kind: datasheet, source: sheet}",
        "{formula: 5 / 2, kind: derived, source: sheet}",
        ["9:32: a count is a whole number, but this is 2.5"],
    ),
    ("value: 100,", "value: 1e999,", ["9:40: '1e999' is out of range; write a number that a computer can hold"]),
    (
        'match: ["Acme Toy"]',
        'match: ["Acme ("]',
        ["6:8: 'Acme (' is not a regular expression: missing ), unterminated subpattern at position"],
    ),
    ("name: toy", "name: Toy 1", ["2:7: a profile name has lower-case letters, digits, '-' and '.' only"]),
    ("vendor: acme\n", "", ["1:1: a hardware profile lacks 'vendor'"]),
    (
        "vendor: acme",
        "vendor: acme\nextends: ../../etc/passwd",
        ["4:10: extends: unknown profile '../../etc/passwd'; it takes a profile's name, not a path"],
    ),
    ("vendor: acme", "vendor: acme\nextends: h100-smx", ["4:10: extends: unknown profile 'h100-smx'; did you mean 'h100-sxm'"]),
    (
        "vendor: acme",
        "vendor: acme\nextends: /dev/zero",
        ["4:10: extends: unknown profile '/dev/zero'; it takes a profile's name, not a path"],
    ),
    ("  l2: {scope: device", "  l2: {scope: chip", ["21:15: unknown value 'chip'; known: device, processor"]),
    ("scope: device\n    size", "size", ["23:5: a memory level lacks 'scope'"]),
]
