"""The `kbengine` command: the one place that puts all layers together; a command is imported when it is called."""

from __future__ import annotations

import importlib
import os
import sys

import click

from kbengine.terminal.threads import set_thread_defaults
from kbengine.version import __version__

BUILD = "kbengine.terminal.build_commands"
MAINTENANCE = "kbengine.terminal.maintenance_commands"
MAINTENANCE_BACKUP = "kbengine.terminal.backup_commands"

COMMANDS = {
    "add": (f"{BUILD}:add", "Add documents; one whose id is there already is replaced."),
    "aliases": (
        "kbengine.terminal.aliases_command:aliases",
        "Other names of documents: list, look up, add, delete, import.",
    ),
    "annotate": ("adapters.commands.annotate:annotate", "Find and link the mentions of a text that has no marks."),
    "backup": (f"{MAINTENANCE_BACKUP}:backup", "Add a backup to a folder of backups, while others read and write."),
    "build": (f"{BUILD}:build", "Build a knowledge base from files or folders."),
    "calibrate": (
        "adapters.commands.calibrate:calibrate",
        "Fit weights, probabilities and a threshold for a task; save them.",
    ),
    "cluster": (
        "kbengine.terminal.cluster_build_commands:cluster",
        "Build, change and look after what several machines search.",
    ),
    "compact": (f"{MAINTENANCE}:compact", "Merge segments and give the space of deleted documents back."),
    "delete": (f"{MAINTENANCE}:delete", "Delete documents by id."),
    "demo": ("web.demo_command:demo", "Build the bundled knowledge base, ask it one query of each task, serve it."),
    "densephrases": (
        "kbengine.terminal.densephrases_command:densephrases",
        "Import DensePhrases' checkpoints, phrase dumps and indexes.",
    ),
    "doctor": ("kbengine.terminal.doctor_command:doctor", "Check this environment: versions, SQLite, processor."),
    "encoders": (
        "kbengine.terminal.encoders_command:encoders",
        "Encoders tuned for a knowledge base: list, export, delete.",
    ),
    "evaluate": (
        "adapters.commands.evaluate:evaluate",
        "Measure reading, BM25 with a reader, or open-domain questions.",
    ),
    "export": (
        "adapters.commands.export:export",
        "Write all documents as JSON lines, or the passages found for questions.",
    ),
    "feedback": (
        "adapters.commands.feedback:feedback",
        "What people say about answers: add, list, delete, export to tune on.",
    ),
    "fill": ("adapters.commands.fill:fill", "Fill a table: what is known of its names, or answers to its questions."),
    "import": (f"{BUILD}:import_", "Another name of add."),
    "info": (f"{MAINTENANCE}:info", "Show what a knowledge base holds, how large it is and its last commits."),
    "inspect": (f"{MAINTENANCE}:inspect", "List the SQL views of a knowledge base, or show the rows of one."),
    "key": ("web.commands:key", "Make, list and revoke API keys."),
    "lint": ("adapters.commands.kilt:lint", "Find what would be rejected or score zero, before uploading."),
    "mcp": ("web.mcp.command:mcp", "Serve assistants by the Model Context Protocol."),
    "predict": ("adapters.commands.kilt:predict", "Answer a KILT task file: a leaderboard submission."),
    "profile": ("adapters.commands.profile:profile", "Show an entity's card: names, what it is, what is known of it."),
    "query": ("adapters.commands.query:query", "Ask a knowledge base a question, or anything the other tasks take."),
    "questions": ("kbengine.terminal.questions_command:questions", "Make training questions from a corpus."),
    "reindex": (
        "kbengine.terminal.reindex_command:reindex",
        "Fewer tokens or another index from what is stored, nothing encoded.",
    ),
    "restore": (f"{MAINTENANCE_BACKUP}:restore", "Make a knowledge base of a backup, verified."),
    "score": ("adapters.commands.kilt:score", "Score a submission as the official KILT evaluation does."),
    "serve": ("web.commands:serve", "Serve a knowledge base: JSON API, web page, metrics."),
    "sync": (f"{BUILD}:sync", "Keep a knowledge base in step with a folder or feed."),
    "train": (
        "kbengine.terminal.train_command:train",
        "Train a phrase encoder, a reader, or adapt an encoder to a corpus.",
    ),
    "tune": (
        "adapters.commands.tune:tune",
        "Tune the query encoder for a task on a knowledge base that stays as it is.",
    ),
    "verify": (f"{MAINTENANCE}:verify", "Check every file and table; exit 1 when something is wrong."),
}
"""Where each command is, and its line in the list of commands, which is shown without importing it."""


ENVIRONMENT_PREFIX = "KBENGINE"
"""Each option may be given by a variable, too: KBENGINE, the command and the option's name."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click names it)
        """Return the names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the command, imported now; None if there is none of the name."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name][0].split(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": ENVIRONMENT_PREFIX}
)
@click.version_option(__version__, prog_name="kbengine")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:
    """Build a knowledge base whose only index is phrases, and ask it.

    \b
    Example:
      kbengine build pages.jsonl.gz --kb my-kb
      kbengine query --kb my-kb "Who wrote Pride and Prejudice?"
    """
    context.obj = {"debug": debug}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; errors are one line on stderr and exit code 1 (failure) or 2 (usage)."""
    set_thread_defaults()
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments or os.environ.get(f"{ENVIRONMENT_PREFIX}_DEBUG", "") in ("1", "true")
    try:
        cli.main(args=arguments, prog_name="kbengine", standalone_mode=False)
    except click.exceptions.Exit as e:
        raise SystemExit(e.exit_code) from None
    except click.ClickException as e:
        e.show()
        raise SystemExit(e.exit_code) from None
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted; everything committed so far is kept", err=True)
        raise SystemExit(130) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except Exception as e:
        from storage.errors import KBError

        if debug or not isinstance(e, KBError | OSError):
            raise
        click.echo(f"error: {e}", err=True)
        raise SystemExit(e.exit_code if isinstance(e, KBError) else 1) from None


if __name__ == "__main__":
    main()
