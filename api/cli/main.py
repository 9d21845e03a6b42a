"""The command `joblog`: finds the commands, and turns every refusal into a line of text and an exit code."""

from __future__ import annotations

import errno
import os
import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from ...domain.errors import JobLogError
from ..text import clean
from .exits import Exit, exit_of
from .local_only import why
from .settings import Settings, shared_options

if TYPE_CHECKING:
    from collections.abc import Sequence


class Entry(NamedTuple):
    """Where a command lives, and its line in the overview; a test compares it with the command's own."""

    module: str
    help: str


#: Nothing but the chosen command's module is imported.
COMMANDS: Final[dict[str, dict[str, Entry]]] = {
    "Start": {
        "demo": Entry("demo", "Import a real file, to watch and to kill."),
        "init": Entry("schema", "Make the database ready; safe to repeat."),
        "up": Entry("working", "Make the database ready, run a worker and serve, in one process."),
        "worker": Entry("working", "Run a worker until it is told to stop."),
        "serve": Entry("serving", "Serve the HTTP API and its page, beside any number of workers."),
    },
    "Jobs": {
        "submit": Entry("submit", "Hand in a job; the same key again is the same job."),
        "list": Entry("listing", "List jobs, newest first."),
        "show": Entry("show", "Show a job and what happened to it."),
        "why": Entry("why", "Say why a job stands where it stands."),
        "tail": Entry("tail", "Follow the log."),
        "consumers": Entry("consumers", "List who follows the log under a name, and how far each has come."),
        "pause": Entry("control", "Hold jobs; a running one stops at its next boundary."),
        "resume": Entry("control", "Let paused or failed jobs go on."),
        "cancel": Entry("control", "Withdraw jobs; a running one ends at its next boundary."),
        "retry": Entry("control", "Start a fresh attempt cycle of failed or paused jobs, now."),
        "queues": Entry("queues", "List, pause, resume and limit queues."),
        "workers": Entry("workers", "List the workers that hold jobs now."),
        "gates": Entry("gates", "List, close, open and limit the gates of providers."),
        "webhooks": Entry(
            "webhooks", "List, set, disable, remove and replay the destinations of webhooks; forget old receipts."
        ),
    },
    "Care": {
        "verify": Entry("verify", "Check that no event was changed, removed, moved or slipped in."),
        "heads": Entry("heads", "Sign the log, and list what was signed."),
        "export": Entry("export", "Write the log, or a range of it, into a file that can be checked anywhere."),
        "import-log": Entry("export", "Fill an empty log with an export."),
        "backup": Entry("backup", "Make a verified copy of the log while it is written."),
        "restore": Entry(
            "backup", "Put a backup in the place of the log, under a new epoch; what was there is kept beside it."
        ),
        "archive": Entry("archive", "Move the bodies of jobs that ended for good into a file that the log can check."),
        "archives": Entry("archive", "List archives, and whether their files are at hand; say where one is by now."),
        "doctor": Entry("doctor", "Check the database, the log and the workers."),
        "migrate": Entry("schema", "Bring the schema to this version, or check it."),
        "projections": Entry("projections", "List, follow, rebuild and verify what is derived from the log."),
        "recovery": Entry("recovery", "Show what was taken back, tried again, given up, or reported; take in reports."),
        "tokens": Entry("tokens", "Create, list and revoke tokens of the service."),
        "credentials": Entry("credentials", "Keep secret values for jobs, sealed; jobs say cred:NAME."),
        "epoch": Entry("epoch", "Accept a log that was restored or failed over."),
    },
}
_ENTRIES: Final = {name: entry for section in COMMANDS.values() for name, entry in section.items()}


class Overview(click.Group):
    """Knows its commands by name only, and imports the one that is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """For the help and for completion."""
        del ctx
        return list(_ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        del ctx
        entry = _ENTRIES.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(
            import_module(f".{entry.module}", __package__), f"{cmd_name.replace('-', '_')}_command"
        )
        _explain(cmd_name, command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview without importing anything."""
        del ctx
        for title, section in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(11), entry.help) for name, entry in section.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run; a refusal of the log becomes two lines on stderr and its exit code, never a traceback."""
        try:
            answer = super().invoke(ctx)
        except JobLogError as error:
            click.echo(f"error: {clean(str(error))}\ncode: {error.code}", err=True)
            ctx.exit(exit_of(error))
        if isinstance(answer, Exit):
            ctx.exit(answer)
        return answer


def _explain(path: str, command: click.Command) -> None:
    """Say in its help why a command asks no service."""
    if reason := why(path):
        command.epilog = f"It takes no --server: {reason}."
    for name, below in command.commands.items() if isinstance(command, click.Group) else ():
        _explain(f"{path} {name}", below)


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click calls it so
    if not value or ctx.resilient_parsing:
        return
    from ..version import version

    click.echo(f"joblog {version() or '(not installed)'}")
    ctx.exit()


@click.group(cls=Overview, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Say the version and end."
)
@shared_options(environment=True)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """A durable job log: long jobs go on at their checkpoint after a crash, a kill -9 or a power cut."""
    ctx.ensure_object(Settings)


def run(args: Sequence[str]) -> int:
    """Run one command line; returns its exit code.  What is not ours keeps its traceback."""
    try:
        code = cli.main(args, prog_name="joblog", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        _tell_usage(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except OSError as error:
        if error.errno != errno.EPIPE:
            raise
        # The reader went away: what is still buffered must not fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    code = code if isinstance(code, int) else Exit.DONE
    if any(thread.name.startswith("joblog-unit") for thread in threading.enumerate()):
        _leave(code)
    return code


def _tell_usage(error: click.ClickException) -> None:
    """As a refusal is told, and the way to help; a bare group of commands shows its help right away."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    if ctx is not None and type(error).__name__ == "NoArgsIsHelpError":
        click.echo(ctx.get_help(), err=True)
        return
    click.echo(f"error: {error.format_message()}\ncode: usage", err=True)
    if ctx is not None:
        click.echo(f"{ctx.get_usage()}\nsee {ctx.command_path} --help", err=True)


def _leave(code: int) -> None:
    """End the process although a unit still runs in a thread: it was abandoned, its result would be refused anyway."""
    sys.stderr.flush()
    os._exit(code)
