"""On which stores the tests of the emulator run: all of them, but for what only the emulator has."""

from typing import Final

STORES: Final = ("memory", "sqlite", "postgres")
_CALLS: Final = "recorded calls"
_CONTROL: Final = "the control plane"
_FAULTS: Final = "faults"
_PROCESS: Final = "the emulator's own processes, mounts and commands"
_STATE: Final = "snapshots, state files, seeds and rewinding"

MEMORY_ONLY: Final = {
    "test_call_info": _CALLS,
    "test_calls": _CALLS,
    "test_calls_after_restore": _CALLS,
    "test_clock": "the emulator's clock",
    "test_collections": "the emulator's memory",
    "test_command": _PROCESS,
    "test_control_calls": _CONTROL,
    "test_control_plane": _CONTROL,
    "test_delivery": _FAULTS,
    "test_faults_control": _FAULTS,
    "test_faults_kinds": _FAULTS,
    "test_faults_matching": _FAULTS,
    "test_faults_models": _FAULTS,
    "test_faults_modes": _FAULTS,
    "test_faults_removed": _FAULTS,
    "test_growth": "the emulator's memory",
    "test_mounts": _PROCESS,
    "test_snapshots": _STATE,
    "test_state_document": _STATE,
    "test_state_file": _STATE,
    "test_tenants": "tenants",
    "test_contracts::test_a_document_with_two_active_revisions_under_one_key_can_be_served": _FAULTS,
    "test_errors::test_the_calls_are_remembered": _CALLS,
    "test_executions::test_a_free_execution_is_closed_after_a_restart": _STATE,
    "test_executions::test_the_metadata_is_in_the_state": _STATE,
    "test_ids::test_counted_ids_and_a_still_clock_repeat_a_story": _STATE,
    "test_ids::test_the_same_seed_repeats_a_story_and_another_does_not": _STATE,
    "test_ids::test_what_one_tenant_does_moves_no_ids_of_another": "tenants",
    "test_rebuilt_proofs::test_a_seed_repeats_the_values": _STATE,
    "test_rebuilt_proofs::test_without_the_fresh_value_the_theft_succeeds": _FAULTS,
    "test_resources::test_a_snapshot_shows_every_field_as_it_was_after_a_restart": _STATE,
    "test_settlement_control::test_one_that_waits_for_the_work_cannot_be_settled": _CONTROL,
    "test_usage_prices::test_a_saved_state_has_what_was_used": _STATE,
    "test_settlement_control::test_who_is_not_known_is_an_error": _CONTROL,
}
"""Modules, and tests as `module::function`, with what the self-hosted service does not have."""


def find_stores(module: str, test: str) -> tuple[str, ...]:
    """The stores of this test."""
    is_memory_only = module in MEMORY_ONLY or f"{module}::{test}" in MEMORY_ONLY
    return STORES[:1] if is_memory_only else STORES


def find_class(store: str) -> str:
    """Return what a test is spread for: all cases on the emulator, and a part of them on a database."""
    return "memory" if store == "memory" else "database"
