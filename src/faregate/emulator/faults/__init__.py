"""Faults on purpose: what a fault is, the active rules, and named presets."""

from faregate.emulator.faults.active_faults import CLEAN, MODES, Faults, Rule
from faregate.emulator.faults.models import KINDS, Fault

__all__ = ["CLEAN", "KINDS", "MODES", "Fault", "Faults", "Rule"]
