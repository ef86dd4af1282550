"""Templates filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from folt.store.packages import require


def render(template: str, content: Mapping[str, object], **filters: Callable[..., str]) -> str:
    """Return a page as HTML: what is filled in is escaped, what is missing is an error.

    Args:
        template: its name in the folder of templates.
        content: what it shows.
        filters: functions that turn values into words, by the name the template gives them.
    """
    require("a report", "jinja2")
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("folt", "report/template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment.get_template(template).render(content)
