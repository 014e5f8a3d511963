"""Faults on purpose: what a fault is, the active rules, and named presets."""

from faregate.emulator.faults.models import KINDS, Fault
from faregate.emulator.faults.rules import CLEAN, MODES, Faults, Rule

__all__ = ["CLEAN", "KINDS", "MODES", "Fault", "Faults", "Rule"]
