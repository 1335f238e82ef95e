"""The 25 conventions of a good command line, and the tests that hold each.

A test is written as ``file::name`` or ``file::Class::name``, from ``tests/``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Convention:
    """Its number, its claim, and where it is tested."""

    number: int
    claim: str
    tests: tuple[str, ...]


_C = "cli/test_conventions.py"
_S = "cli/test_settings.py"
_H = "conventions/test_help_and_flags.py"
_X = "conventions/test_completion.py"
_W = "conventions/test_warnings.py"
_M = "measure/test_cli_measure.py"

CONVENTIONS = (
    Convention(1, "stdout carries only the result", (f"{_C}::test_stdout_carries_only_the_result",)),
    Convention(
        2,
        "warnings, hints and progress go to stderr",
        (f"{_C}::test_warnings_and_hints_go_to_stderr", f"{_W}::test_quiet_changes_no_result"),
    ),
    Convention(
        3,
        "a progress bar only where a person sees it",
        (f"{_M}::TestProgress::test_nobody_else_does", f"{_M}::TestProgress::test_a_person_sees_each_step"),
    ),
    Convention(4, "no colour off a terminal, with NO_COLOR, TERM=dumb, --color=never", (f"{_C}::test_no_colour_where_nobody_sees_it",)),
    Convention(5, "--color=always and FORCE_COLOR win off a terminal", (f"{_C}::test_colour_where_it_is_asked_for",)),
    Convention(
        6,
        "exit codes mean one thing each",
        (
            f"{_C}::test_each_exit_code_means_one_thing",
            f"{_C}::test_the_help_lists_the_exit_codes",
            f"{_C}::test_an_interrupt_ends_with_130",
            f"{_C}::test_a_reader_that_leaves_ends_the_command_without_a_word",
            "measure/test_faults.py::TestMemory::test_all_of_them_are_exit_4",
        ),
    ),
    Convention(
        7,
        "no traceback for a mistake of the user",
        (
            "fuzz/test_mutated_files.py::test_any_command_on_a_spoiled_file_ends_with_a_known_exit_code",
            f"{_C}::test_debug_shows_the_traceback_of_an_error",
            f"{_C}::test_a_full_disk_and_a_closed_stream_are_errors_without_a_traceback",
        ),
    ),
    Convention(
        8,
        "errors carry place, line, caret and fix",
        (
            f"{_C}::test_an_error_has_its_place_its_line_a_caret_and_a_fix",
            "cli/test_bad_files.py::test_a_bad_workload_is_refused_with_every_message_in_its_place",
            "cli/test_bad_files.py::test_a_bad_profile_is_refused_with_every_message_in_its_place",
        ),
    ),
    Convention(9, "a misspelt word is answered with the nearest", (f"{_C}::test_a_misspelt_word_is_answered_with_the_nearest",)),
    Convention(
        10, "all errors at once, in the order of the lines", (f"{_C}::test_all_errors_are_shown_at_once_in_the_order_of_the_lines",)
    ),
    Convention(
        11,
        "- is stdin and stdout, the ending picks the format",
        (f"{_C}::test_a_dash_is_stdin_and_stdout_and_the_ending_picks_the_format",),
    ),
    Convention(
        12,
        "GB is 1e9 B and GiB is 2**30 B",
        (
            f"{_C}::test_gb_is_a_thousand_million_bytes_and_gib_is_not",
            f"{_C}::test_no_output_writes_a_rate_without_its_unit",
        ),
    ),
    Convention(13, "B and b, FLOP and FLOP/s and FLOP/B", (f"{_C}::test_no_output_writes_a_rate_without_its_unit",)),
    Convention(
        14,
        "four digits for people, all in JSON, units in keys",
        (f"{_C}::test_json_numbers_are_the_floats_themselves_and_keys_carry_units",),
    ),
    Convention(
        15,
        "JSON has its schema, the tool's version and the inputs' hashes; keys never vanish",
        (
            f"{_C}::test_a_report_is_as_its_schema_says",
            "contracts/test_reports.py::test_no_value_is_absent_without_a_word",
        ),
    ),
    Convention(16, "JSON holds no NaN", (f"{_C}::test_json_holds_no_nan",)),
    Convention(
        17, "tables never cut a number", (f"{_C}::test_no_number_is_cut_in_a_narrow_terminal", f"{_C}::test_dropped_columns_are_named")
    ),
    Convention(
        18,
        "ASCII where stdout knows no more",
        (
            f"{_C}::test_an_ascii_terminal_gets_us_for_microseconds",
            f"{_C}::test_json_is_json_where_stdout_knows_ascii_only",
        ),
    ),
    Convention(
        19,
        "flags, then ROOFLINE_, then project, then user, then built-in",
        (
            f"{_S}::test_a_flag_comes_before_a_variable",
            f"{_S}::test_a_variable_comes_before_the_project",
            f"{_S}::test_the_project_comes_before_the_user",
            f"{_S}::test_the_user_comes_before_what_is_built_in",
            f"{_S}::test_roofline_toml_comes_before_pyproject_and_the_nearest_before_both",
            f"{_S}::test_config_show_gives_every_setting_with_its_origin",
        ),
    ),
    Convention(
        20,
        "--quiet, -v, --debug and their like stand before or after the command",
        (
            f"{_C}::test_global_flags_stand_before_or_after_the_command",
            f"{_H}::test_every_global_flag_may_follow_the_command",
            f"{_H}::test_verbose_says_which_settings_are_in_force",
        ),
    ),
    Convention(
        21,
        "one line of version; help in 80 columns with examples first",
        (
            f"{_C}::test_the_version_is_one_line",
            f"{_C}::test_help_has_examples_before_options_in_80_columns",
            f"{_H}::test_every_command_helps_in_80_columns",
            f"{_H}::test_every_command_has_its_example",
        ),
    ),
    Convention(
        22,
        "completion for bash, zsh and fish with names, quick and without torch",
        (
            f"{_X}::test_names_are_completed_in_each_shell",
            f"{_X}::test_completion_imports_neither_torch_nor_numpy_nor_rich",
            f"{_X}::test_the_scripts_of_the_shells_ask_for_completion",
            f"{_X}::test_completion_costs_little_more_than_the_start",
        ),
    ),
    Convention(
        23,
        "the same input gives the same bytes",
        (
            f"{_C}::test_the_same_input_gives_the_same_bytes",
            f"{_C}::test_two_processes_give_the_same_bytes",
            "ci/test_gate.py::test_the_same_commits_give_the_same_bytes",
        ),
    ),
    Convention(24, "never prompts, never calls the network", (f"{_C}::test_nothing_prompts_and_nothing_calls_the_network",)),
    Convention(
        25,
        "warnings have codes, may be ignored, and may be fatal",
        (
            f"{_W}::test_a_warning_has_its_code",
            f"{_W}::test_a_warning_may_be_ignored",
            f"{_W}::test_a_warning_may_be_fatal",
        ),
    ),
)
