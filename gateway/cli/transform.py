"""``partway transform``: ask a model for the records of files, and write the answers."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from partway.documentation import page
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.arguments import add_gateway, region, whole_number
from partway.gateway.cli.process import INTERRUPTED, run_loop, stop_on_signals
from partway.gateway.plain_text import safe_lines
from partway.gateway.timing.clock import LoopClock
from partway.gateway.timing.deadlines import before

if TYPE_CHECKING:
    from partway.gateway.batch.gateway_endpoint import GatewayModel
    from partway.gateway.batch.job import TransformJob
    from partway.gateway.batch.launched_instances import FleetModel
    from partway.gateway.batch.options import TransformOptions
    from partway.gateway.cli.transform_progress import TransformShown
    from partway.gateway.fleet.endpoint import OneSource

    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_NAME: Final = "partway transform"

_EXAMPLES: Final = """\
examples:
  partway transform --image kmeans --input data/ --output answers/ --content-type text/csv \\
      --split Line --assemble Line --accept application/jsonlines
  partway transform --url http://127.0.0.1:8080 --input s3://bucket/in/ --output s3://bucket/out/ \\
      --content-type application/x-recordio-protobuf --split RecordIO --concurrency 4
  partway transform --command 'uvicorn app:app --port {port}' --input data/ --output answers/ \\
      --content-type application/json
  partway transform --endpoint echo --input photos/ --output tags/ --content-type image/jpeg
"""

#: Flags by the API's names of the members, for messages.
_FLAGS: Final = {
    "SplitType": "--split",
    "AssembleWith": "--assemble",
    "BatchStrategy": "--strategy",
    "CompressionType": "--compression",
    "MaxPayloadInMB": "--max-payload-mb",
    "MaxConcurrentTransforms": "--concurrency",
    "InvocationsTimeoutInSeconds": "--timeout",
    "InvocationsMaxRetries": "--retries",
    "ContentType": "--content-type",
    "Accept": "--accept",
    "InputFilter": "--input-filter",
    "OutputFilter": "--output-filter",
    "JoinSource": "--join",
}


class TransformAskedWrongly(Exception):
    """The command cannot be run as it was given; the message says why."""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "transform",
        help=COMMANDS["transform"],
        description=(
            "Send each record of files to a model, and write the answers: those for DIR/a.csv into "
            f"OUT/a.csv.out. See {page('how-to/transform.md')}"
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument(
        "--endpoint", metavar="NAME", help="an endpoint of the gateway that --gateway names"
    )
    model.add_argument("--url", metavar="CONTAINER", help="a running container, http://HOST:PORT")
    model.add_argument("--image", help="start containers from an image, or a built-in model")
    model.add_argument(
        "--command",
        dest="entrypoint",
        metavar="COMMAND",
        help="start containers by a command; {port} stands for its port",
    )
    add_gateway(parser)
    parser.add_argument(
        "--input",
        required=True,
        metavar="PATH",
        help="a file, a folder, s3://BUCKET/PREFIX, or a FILE.manifest that names files",
    )
    parser.add_argument(
        "--output", required=True, metavar="PATH", help="a folder, or s3://BUCKET/PREFIX"
    )
    parser.add_argument(
        "--content-type", required=True, metavar="TYPE", help="media type of the records"
    )
    parser.add_argument("--accept", default="", metavar="TYPE", help="media type of the answers")
    _add_api(parser)
    parser.add_argument(
        "--instances",
        type=whole_number,
        default=1,
        metavar="N",
        help="how many containers to start, for --image or --command (%(default)s)",
    )
    parser.set_defaults(run=run)


def _add_api(parser: argparse.ArgumentParser) -> None:
    """Add the flags that CreateTransformJob has members for."""
    parser.add_argument(
        "--split",
        choices=("None", "Line", "RecordIO", "TFRecord"),
        default="None",
        help="how to cut files into records (None)",
    )
    parser.add_argument(
        "--assemble",
        choices=("None", "Line"),
        default="None",
        help="Line has each answer end with one newline (None)",
    )
    parser.add_argument(
        "--strategy",
        choices=("MultiRecord", "SingleRecord"),
        help="records in a request: as many as fit, or one (the container's, or MultiRecord)",
    )
    parser.add_argument(
        "--compression",
        choices=("None", "Gzip"),
        default="None",
        help="compression of the input files (None)",
    )
    parser.add_argument(
        "--max-payload-mb",
        type=whole_number,
        metavar="N",
        help="limit of a request, in 2^20 bytes; 0: none, sent in chunks (the container's, or 6)",
    )
    parser.add_argument(
        "--concurrency",
        type=whole_number,
        metavar="N",
        help="requests at a time for each container (the container's, or 1)",
    )
    parser.add_argument(
        "--timeout",
        type=whole_number,
        default=600,
        metavar="S",
        help="seconds to wait for an answer (%(default)s)",
    )
    parser.add_argument(
        "--retries",
        type=whole_number,
        default=3,
        metavar="N",
        help="retries of a request if the container answers 5xx or breaks off (%(default)s)",
    )
    parser.add_argument(
        "--input-filter",
        default="$",
        metavar="P",
        help="JSONPath: the part of a record to send ($)",
    )
    parser.add_argument(
        "--output-filter",
        default="$",
        metavar="P",
        help="JSONPath: the part of an answer, joined or not, to write ($)",
    )
    parser.add_argument(
        "--join",
        choices=("None", "Input"),
        default="None",
        help="Input joins each answer with its record (None)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0 when every file is whole, 1 if one failed, 2 on bad usage."""
    from partway.gateway.batch.model import ModelGone
    from partway.gateway.batch.options import OptionsError
    from partway.gateway.storage.places.place import StorageFailed

    try:
        return run_loop(transform(options))
    except OptionsError as error:
        flag = _FLAGS.get(error.member)
        return _say_why(f"{flag} ({error})" if flag else str(error), 2)
    except (TransformAskedWrongly, ValueError) as error:
        return _say_why(str(error), 2)
    except ModelGone as error:
        return _say_why(f"--url {options.url}: {error}" if options.url else str(error), 1)
    except StorageFailed as error:
        return _say_why(str(error), 1)


async def transform(options: argparse.Namespace) -> int:
    """Do all of the job that is not done yet; return the exit status."""
    asked = _asked(options)
    hasten: list[FleetModel] = []

    def again() -> None:
        for each in hasten:
            each.fleet.hasten()

    stop = stop_on_signals(again)
    status = await before(stop, _transform(options, asked, hasten))
    if status is None:
        _say_why(
            "interrupted: each written file is complete; run the same command again for the rest", 0
        )
        return INTERRUPTED
    return status


async def _transform(
    options: argparse.Namespace, asked: TransformOptions, hasten: list[FleetModel]
) -> int:
    from partway.gateway.batch.execution_parameters import settled
    from partway.gateway.cli.transform_progress import TransformShown, summary

    clock = LoopClock()
    job = _job(options, asked, clock)
    shown = TransformShown(job.progress, clock)
    if await job.look():
        async with _model(options, asked, clock, hasten, shown) as model:
            plan = settled(asked, await model.parameters())
            shown.say(
                f"{plan.strategy}, bodies of "
                f"{'any size' if plan.unlimited else f'{plan.payload_mb} MB at most'}, "
                f"{plan.concurrent * model.instances} at a time"
            )
            with shown.running():
                await job.run(model, plan)
    shown.end()
    print(summary(job.progress, shown.seconds))
    return 1 if job.progress.failures else 0


def _asked(options: argparse.Namespace) -> TransformOptions:
    """Make the job's options of the flags.

    Raises:
        OptionsError: the API does not take a value, or two values do not go together.
        TransformAskedWrongly: the same, of flags that the API has no member for.
    """
    from partway.gateway.batch.options import TransformOptions
    from partway.gateway.fleet.limits import MAX_INSTANCES

    if not 1 <= options.instances <= MAX_INSTANCES:
        raise TransformAskedWrongly(
            f"--instances: {options.instances} was given; it must be from 1 to {MAX_INSTANCES}"
        )
    if options.instances > 1 and not (options.image or options.entrypoint):
        raise TransformAskedWrongly(
            "--instances works only with --image and --command, which start containers"
        )
    if options.endpoint and options.max_payload_mb == 0:
        raise TransformAskedWrongly(
            "--max-payload-mb: 0 was given; with --endpoint it must be from 1 to 100, since the "
            "gateway takes bodies up to its max_invocation_body"
        )
    return TransformOptions(
        content_type=options.content_type,
        accept=options.accept,
        split_type=options.split,
        assemble_with=options.assemble,
        compression_type=options.compression,
        batch_strategy=options.strategy,
        max_payload_mb=options.max_payload_mb,
        max_concurrent=options.concurrency,
        invocation_timeout=options.timeout,
        max_retries=options.retries,
        input_filter=options.input_filter,
        output_filter=options.output_filter,
        join_source=options.join,
    )


def _job(options: argparse.Namespace, asked: TransformOptions, clock: LoopClock) -> TransformJob:
    """Make the job; an error in the data processing comes before any look-up."""
    from partway.gateway.batch.command_locations import MANIFEST, places
    from partway.gateway.batch.data_processing import processing_of
    from partway.gateway.batch.job import TransformJob

    processing = processing_of(asked) if asked.processes else None
    inputs, outputs = places(
        *(options.input, options.output, asked.accept, clock),
        manifest=options.input.endswith(MANIFEST),
    )
    return TransformJob(asked, inputs, outputs, clock, processing)


@asynccontextmanager
async def _model(
    options: argparse.Namespace,
    asked: TransformOptions,
    clock: LoopClock,
    hasten: list[FleetModel],
    shown: TransformShown,
) -> AsyncIterator[FleetModel | GatewayModel]:
    """Open the model that is asked, for as long as the block lasts."""
    if options.endpoint:
        from partway.gateway.batch.gateway_endpoint import GatewayModel

        there = GatewayModel(options.gateway, options.endpoint, region(), os.environ, asked, clock)
        async with there as gateway:
            yield gateway
        return
    from partway.gateway.batch.launched_instances import FleetModel
    from partway.gateway.batch.model import ModelGone
    from partway.gateway.cli.transform_progress import FailuresShown
    from partway.gateway.fleet.endpoint import UNWATCHED, InstanceTimes, Variant
    from partway.gateway.fleet.provisions import Provisions
    from partway.log_lines import start_logging

    start_logging("warning", "text")
    times = UNWATCHED if options.url else InstanceTimes()
    variant = Variant(source=_source(options), instances=options.instances, times=times)
    provisions = Provisions(clock)
    with FailuresShown(shown) as failures:
        try:
            async with FleetModel(variant, asked, provisions.means, clock) as model:
                hasten.append(model)
                if not options.url:
                    number = options.instances
                    shown.say(f"starting {number} container{'s' if number > 1 else ''}")
                await model.started()
                yield model
        except ModelGone as error:
            raise ModelGone(failures.without_what_is_said(str(error))) from None
        finally:
            await provisions.aclose()


def _source(options: argparse.Namespace) -> OneSource:
    """Make the source of the containers.

    Raises:
        TransformAskedWrongly: no container can be started or reached with these flags.
    """
    from partway.gateway.fleet.endpoint import Attached, container_address, is_tls
    from partway.gateway.fleet.launchers.images import is_image, resolve_image
    from partway.gateway.fleet.processes.commands import command_words, program_of
    from partway.gateway.tls.trust import Trust

    try:
        if options.url:
            tls = Trust() if is_tls(options.url) else None
            return Attached((container_address(options.url, tls=True),), tls)
        if options.entrypoint:
            return program_of(command_words(options.entrypoint), Path.cwd())
    except ValueError as error:
        flag = "--url" if options.url else "--command"
        raise TransformAskedWrongly(f"{flag}: {error}") from None
    if not is_image(options.image):
        raise TransformAskedWrongly(
            f"--image: {options.image!r} was given; it must be an image's name, such as chat:1"
        )
    return resolve_image(options.image, {})


def _say_why(why: str, status: int) -> int:
    for line in safe_lines(why):
        print(f"{_NAME}: {line}", file=sys.stderr)
    return status
