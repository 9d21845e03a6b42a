"""What every command is told: which database, which jobs, how to answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

DEFAULT_DB: Final = "sqlite:///joblog.db"
DEFAULT: Final = "default"


@dataclass
class Settings:
    """Read once from the command line and the environment.  Each option may stand before or behind the command."""

    db: str = DEFAULT_DB
    db_origin: str = DEFAULT  #: default, JOBLOG_DB, or --db
    server: str = ""  #: the service to ask instead
    server_origin: str = ""
    token_file: str = ""
    archives: str = ""  #: where archives are that are not where they were put
    app: str = ""  #: ``module:attribute`` of the user's jobs
    as_json: bool = False
    quiet: bool = False


def _set(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Keep a value that was given; click hands in every option, given or not."""
    settings = ctx.ensure_object(Settings)
    if not value:
        return
    setattr(settings, str(param.name), value)
    if param.name in {"db", "server"}:
        from_shell = ctx.get_parameter_source(param.name) is click.core.ParameterSource.ENVIRONMENT
        origin = f"JOBLOG_{param.name.upper()}" if from_shell else f"--{param.name}"
        setattr(settings, f"{param.name}_origin", origin)
        _choose(settings)


def _choose(settings: Settings) -> None:
    """What stands on the command line counts more than what stands in the environment."""
    if settings.server and settings.db_origin == "--db":
        if settings.server_origin == "--server":
            raise click.UsageError("give --db or --server: the log itself, or a service that is asked")
        settings.server = ""


def shared_options(*, environment: bool = False) -> Callable[[F], F]:
    """The options of every command; the environment is read once, at the top."""

    def add(function: F) -> F:
        for names, about in reversed(_OPTIONS):
            shell = {"envvar": about["envvar"], "show_envvar": True} if environment and "envvar" in about else {}
            kept = {key: value for key, value in about.items() if key != "envvar"}
            function = click.option(*names, expose_value=False, callback=_set, **kept, **shell)(function)
        return function

    return add


_OPTIONS: Final[tuple[tuple[tuple[str, ...], dict[str, Any]], ...]] = (
    (
        ("--db",),
        {
            "metavar": "URL",
            "envvar": "JOBLOG_DB",
            "help": f"The database: sqlite:///path or postgresql://…  [default: {DEFAULT_DB}]",
        },
    ),
    (
        ("--server",),
        {
            "metavar": "URL",
            "envvar": "JOBLOG_SERVER",
            "help": "A service to ask instead of the database; its token in JOBLOG_TOKEN or --token-file.",
        },
    ),
    (
        ("--token-file", "token_file"),
        {"metavar": "FILE", "envvar": "JOBLOG_TOKEN_FILE", "help": "Where the token for --server is."},
    ),
    (
        ("--archives",),
        {
            "metavar": "DIR",
            "envvar": "JOBLOG_ARCHIVES",
            "help": "Where archives are that are not in the folder that they were put into.",
        },
    ),
    (
        ("--app",),
        {"metavar": "MODULE:ATTR", "envvar": "JOBLOG_APP", "help": "Your jobs, besides the built-in ones."},
    ),
    (("--json", "as_json"), {"is_flag": True, "help": "Answer in JSON, on stdout."}),
    (("--quiet", "quiet"), {"is_flag": True, "help": "Say nothing on stderr but errors."}),
)


def current() -> Settings:
    """The settings of the command that runs."""
    return click.get_current_context().ensure_object(Settings)
