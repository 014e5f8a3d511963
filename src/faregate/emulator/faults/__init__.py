"""Faults on purpose: what a fault is, the active ones, and named modes."""

from faregate.emulator.faults.active_faults import CLEAN, MODES, ActiveFault, Faults
from faregate.emulator.faults.models import KINDS, Fault

__all__ = ["CLEAN", "KINDS", "MODES", "ActiveFault", "Fault", "Faults"]
