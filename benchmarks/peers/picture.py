"""The picture of the peers: effective draws per CPU second, a panel per problem."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw(runs: list[dict[str, Any]], path: Path) -> None:
    """Bars on a logarithmic scale; where a tool failed stands why."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "folt"
    from matplotlib import pyplot as plt

    from benchmarks.problems import ASKED

    problems = list(dict.fromkeys(run["problem"] for run in runs))
    figure, axes = plt.subplots(
        len(problems), 1, figsize=(7.0, 0.4 + 1.7 * len(problems)), sharex=True, squeeze=False
    )
    for axis, problem in zip(axes[:, 0], problems, strict=True):
        own = [run for run in runs if run["problem"] == problem][::-1]
        speeds = [0.0 if "failure" in run else run["ess"] / run["cpu_s"] for run in own]
        colours = ["#1f6f8b" if run["tool"] == "folt" else "#b8b8b8" for run in own]
        axis.barh([run["tool"] for run in own], speeds, color=colours)
        axis.set_xscale("log")
        for place, run in enumerate(own):
            if "failure" in run:
                where = axis.get_yaxis_transform()
                axis.text(0.01, place, run["failure"], va="center", fontsize=7, transform=where)
        axis.set_title(ASKED[problem].title, loc="left", fontsize=9)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1, 0].set_xlabel("smallest folded effective size per CPU second, from a cold process")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
