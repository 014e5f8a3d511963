"""What a campaign is made of."""

import json
from pathlib import Path

import pytest

from tests.crash.points.campaign import LOG, Campaign, one
from tests.crash.points.kill_points import ALL, BY_NAME
from tests.crash.points.plan import Trial, draw_plan


def test_every_point_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(ALL) > 24


def test_a_trial_has_the_same_plan_for_ever() -> None:
    trial = Trial("sqlite", "record_transaction:after", 17, seed=3)
    assert draw_plan(trial) == draw_plan(one(trial.name, 3, ""))
    assert draw_plan(trial) != draw_plan(one(trial.name, 4, ""))


@pytest.mark.parametrize("point", ALL, ids=lambda point: point.name)
def test_the_plans_of_a_point_differ(point: object) -> None:
    name = getattr(point, "name", "")
    assert len({repr(draw_plan(Trial("sqlite", name, number))) for number in range(40)}) == 40


def test_there_is_no_trial_of_another_name() -> None:
    with pytest.raises(SystemExit, match="there is no trial 'sqlite:nowhere:1'"):
        one("sqlite:nowhere:1", 0, "")


def test_what_is_in_the_log_is_not_run_again(tmp_path: Path) -> None:
    campaign = Campaign(["sqlite"], ["record_transaction:after"], 2, 1, 1, tmp_path)
    said = {"trial": "sqlite:record_transaction:after:0", "seed": 1, "broken": ""}
    others = [{**said, "seed": 2}, {**said, "broken": "no-claim"}]
    (tmp_path / LOG).write_text("".join(json.dumps(line) + "\n" for line in (said, *others)))
    assert campaign.said == [said]
    assert [trial.name for trial in campaign.left] == ["sqlite:record_transaction:after:1"]
