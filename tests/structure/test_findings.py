"""What a newcomer and an engineer with models of their own stumbled on, and the tests that hold each mend.

Each finding has its tests as `file::test`; one whose test is renamed or deleted fails here. The list of wordings is
`test_words.py`. What no test can hold is said below as a reason.
"""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]

FINDINGS: dict[str, tuple[str, ...]] = {
    "1 a text that collapses earns its speed on loops: said beside the figure, in advice and in sweeps": (
        "app/test_page.py::test_text_that_repeats_is_named_beside_every_figure",
        "app/test_compare_table.py::test_text_that_repeats_is_noted_beside_what_it_flatters",
        "app/test_charts.py::test_cells_with_loops_are_marked_and_counted",
        "core/test_advice.py::test_texts_that_loop_are_said_beside_the_advice",
        "core/test_diagnosis.py::test_a_text_that_repeats_is_said",
        "player/test_repeats.py::test_the_player_finds_what_the_core_finds",
    ),
    "2 You rejects right answers for a space": (
        "player/test_live.py::test_a_space_is_supplied_where_a_new_word_needs_one",
        "player/test_live.py::test_a_run_that_asks_gets_the_words_exactly_as_typed",
        "player/test_moments.py::test_tokens_that_differ_in_a_space_alone_are_told_apart",
    ),
    "3 today's models are refused; EAGLE-3, MTP, suffix, quantised weights, other tokenizers are missing": (
        "core/test_windows.py::test_greedy_text_beyond_the_window_is_that_of_generate",
        "core/test_windows.py::test_every_other_proposer_writes_it_too",
        "core/test_foreign_draft.py::test_drafting_goes_on_when_the_drafts_window_is_full",
        "core/test_bundled.py::test_each_proposer_has_its_turn_three_times",
    ),
    "4 Take along emits settings that behave differently": (
        "core/test_portable.py::test_the_copied_code_runs_and_writes_the_lane_s_greedy_tokens",
        "core/test_portable.py::test_a_stop_string_ends_the_copied_code_s_text_where_it_ends_here",
        "core/test_portable.py::test_what_the_target_s_own_config_sets_is_said_where_it_is_not_supported_here",
        "core/test_portable.py::test_each_choice_without_a_counterpart_has_its_line_in_each_server",
        "core/test_portable.py::test_lm_studio_gets_python_that_asks_for_what_the_lane_is",
    ),
    "5 no single screen shows what happens; a lane is empty until the commit; the run ends on its dullest round": (
        "player/test_screen.py::test_text_tree_odds_and_sentence_are_seen_together",
        "player/test_screen.py::test_a_run_that_goes_on_is_seen_on_the_same_screen",
        "player/test_screen.py::test_guesses_are_ghosts_until_each_is_ticked_or_struck",
        "player/test_telling.py::test_the_most_telling_round",
        "browser/test_lab_screen.py::test_the_decision_is_whole_on_the_first_screen",
    ),
    "6 one label, two values; speedup above tau; two sources in one table": (
        "player/test_moments.py::test_the_speedup_in_large_is_the_leading_lanes",
        "player/test_telling.py::test_a_run_opens_there_unless_its_address_names_a_position",
        "app/test_page.py::test_a_speedup_above_tokens_per_pass_is_not_shown_without_its_reason",
        "app/test_compare_table.py::test_after_repeats_every_time_in_the_table_is_theirs",
        "app/test_library_finding.py::test_a_bound_is_no_measured_speedup_in_the_order",
    ),
    "7 a hint that quotes what is not there; q where there is none; p-values; tied weights; damaged or unknown": (
        "core/test_bundled.py::test_what_a_prompt_s_note_quotes_is_in_its_text",
        "player/test_odds.py::test_fixed_guesses_take_their_own_share_of_p",
        "core/test_advice.py::test_a_count_that_luck_explains_is_said_to_be_one",
        "core/test_profiles.py::test_the_catalogue_counts_tied_weights_once",
        "core/test_hostile_models.py::test_unknown_misshaped_and_truncated_files_are_told_apart",
    ),
    "8 import from the root only; swapped lanes; the command line's sweep without a recommendation; what-if's sizes": (
        "structure/test_package.py::test_the_wheel_decodes_and_shows_without_the_repository",
        "core/test_diagnosis.py::test_swapped_traces_are_refused",
        "core/test_sweep.py::test_the_command_measures_keeps_and_goes_on",
        "app/test_whatif.py::test_a_size_of_ones_own_is_taken_and_a_wrong_one_is_explained",
    ),
    "9 temperature 0 shows a coin": (
        "player/test_odds.py::test_at_temperature_zero_one_sentence_says_what_is_compared",
    ),
    "10 keys, wherever the focus is": (
        "player/test_keys.py::test_keys_that_nobody_needs_are_the_player_s_and_no_other_leaves_its_place",
        "player/test_live.py::test_a_run_becomes_a_replay",
        "browser/test_export.py::test_a_page_from_disk_plays_with_the_keys_and_writes_the_trace_s_own_text",
    ),
    "11 links that work nowhere else; a race exported lane by lane": (
        "app/test_address.py::test_an_address_that_leads_nowhere_for_others_is_known",
        "app/test_import.py::test_a_race_is_one_file_and_keeps_its_baseline",
    ),
    "12 bars across words; prompts of 2.5 lines; Ctrl + Enter on a phone; a glossary with gaps": (
        "player/test_screen.py::test_on_a_phone_every_guess_keeps_its_word_and_the_current_one_is_in_sight",
        "browser/test_lab_screen.py::test_the_prompt_box_shows_whole_programs",
        "browser/test_lab_screen.py::test_a_phone_names_no_keys",
        "app/test_links.py::test_every_word_of_the_design_is_explained",
        "app/test_links.py::test_the_glossary_is_searched_by_terms_and_meanings",
    ),
    "wording": ("structure/test_words.py::test_no_text_uses_words_that_readers_stumbled_on",),
}
REASONS = {
    "1": "How well a small model writes is its card's figure and no test's: assets/models/smollm2.md.",
    "3": "What ships of each proposer is on the cards; each has test files of its own beside those named.",
}


def test_every_finding_is_held_by_tests_that_exist() -> None:
    """Catches: a finding whose test was renamed, moved or deleted, and one that was never held."""
    assert [name.split()[0] for name in FINDINGS] == [*map(str, range(1, 13)), "wording"]
    missing = []
    for tests in FINDINGS.values():
        assert tests
        for test in tests:
            file, _, name = test.partition("::")
            if not re.search(rf"^def {name}\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE):
                missing.append(test)
    assert missing == []
    assert all(any(name.startswith(f"{number} ") for name in FINDINGS) for number in REASONS)
