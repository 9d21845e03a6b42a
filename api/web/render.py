"""Templates, and how values look in them."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jinja2

from ..http.errors import RouteNotFoundError
from ..http.route import Answer
from ..text import STATUS, clean, iso, moment, span

if TYPE_CHECKING:
    from ..http.route import Call

HTML: Final = "text/html; charset=utf-8"
_HERE: Final = Path(__file__).parent
_MEDIA: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
#: Screens, in the order of the bar: path, name, key behind "g", whether they are about all tenants.
SCREENS: Final = (
    ("/", "Overview", "o", False),
    ("/jobs", "Jobs", "j", False),
    ("/queues", "Queues", "q", True),
    ("/workers", "Workers", "w", True),
    ("/gates", "Gates", "a", True),
    ("/recovery", "Recovery", "r", True),
    ("/feed", "Feed", "f", True),
    ("/projections", "Projections", "p", True),
    ("/security", "Security", "s", True),
    ("/admin", "Admin", "d", True),
)


@cache
def _static() -> dict[str, tuple[bytes, str]]:
    """Every file under its name with the hash of what is in it: it may be kept for ever."""
    found: dict[str, tuple[bytes, str]] = {}
    for file in sorted((_HERE / "static").iterdir()):
        body = file.read_bytes()
        name = f"{file.stem}.{hashlib.sha256(body).hexdigest()[:12]}{file.suffix}"
        found[name] = (body, _MEDIA[file.suffix])
    return found


def static_url(name: str) -> str:
    """Where a file of ours is."""
    stem, _, suffix = name.rpartition(".")
    return "/static/" + next(one for one in _static() if one.startswith(f"{stem}.") and one.endswith(f".{suffix}"))


def static_file(call: Call) -> Answer:
    """A file of the page."""
    found = _static().get(call.request.match_info["file"])
    if found is None:
        raise RouteNotFoundError("there is no such file")
    body, media = found
    return Answer(body, media=media, headers={"Cache-Control": "public, max-age=31536000, immutable"})


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"clean": clean, "instant": _instant, "span": span, "counted": _counted, "pretty": _pretty}
    made.globals |= {"glyph": _glyph, "static": static_url, "iso": iso}
    return made


def _instant(micros: int | None) -> str:
    """In UTC, to the second; empty if there is none."""
    return "" if micros is None else f"{moment(micros):%Y-%m-%d %H:%M:%S}"


def _counted(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _glyph(status: str) -> str:
    return STATUS.get(status, ("?", ""))[0]


def _pretty(value: Any) -> str:
    """JSON for people; control characters are shown, not obeyed."""
    return "\n".join(clean(line) for line in json.dumps(value, indent=2, ensure_ascii=False).splitlines())


def see_other(where: str) -> Answer:
    """Go on there with a GET."""
    return Answer(b"", 303, {"Location": where})


def page(call: Call, template: str, *, status: int = 200, **values: Any) -> Answer:
    """A page for whoever asks."""
    who = call.principal
    common = {
        "who": who,
        "path": call.request.path,
        "place": call.place,
        "screens": [one for one in SCREENS if not (one[3] and who.is_bound)] if who.via != "nobody" else [],
        "read_only": call.service.settings.read_only,
        "can": lambda scope: who.has(scope) and not call.service.settings.read_only,
        "title": call.service.settings.title,
        "now": call.log.store.now() if who.via != "nobody" else 0,
        "new_key": call.log.ids.next,
    }
    body = _templates().get_template(template).render(common | values)
    return Answer(body.encode("utf-8", "backslashreplace"), status, media=HTML)
