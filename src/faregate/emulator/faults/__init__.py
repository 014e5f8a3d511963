"""What goes wrong on purpose: faults, the rules of a world, and the modes known by name."""

from faregate.emulator.faults.fault import Fault
from faregate.emulator.faults.kinds import KINDS
from faregate.emulator.faults.modes import CLEAN, MODES
from faregate.emulator.faults.rules import Faults, Rule

__all__ = ["CLEAN", "KINDS", "MODES", "Fault", "Faults", "Rule"]
