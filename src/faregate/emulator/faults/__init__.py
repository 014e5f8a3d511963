"""What goes wrong on purpose: faults, the rules of a world, and the modes known by name."""

from faregate.emulator.faults.models import KINDS, Fault
from faregate.emulator.faults.presets import CLEAN, MODES
from faregate.emulator.faults.rules import Faults, Rule

__all__ = ["CLEAN", "KINDS", "MODES", "Fault", "Faults", "Rule"]
