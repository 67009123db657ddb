"""partway.gateway.fleet.output.container_outputs: the last lines of several containers."""

from __future__ import annotations

from partway.gateway.fleet.output.container_outputs import ContainerOutputs
from tests.gateway.fleet.fakes import FakeOutput


def test_each_line_has_the_name_of_who_printed_it():
    first, second = FakeOutput(), FakeOutput()
    first.feed(b"loading\nloaded\n")
    second.feed(b"no such file\n")
    both = ContainerOutputs({"pre": first, "model": second})
    assert both.last_lines() == ("pre: loading", "pre: loaded", "model: no such file")
    both.close()
    assert first.closed
    assert second.closed


def test_of_many_few_lines_are_shown():
    outputs = {f"c{number}": FakeOutput() for number in range(15)}
    for output in outputs.values():
        output.feed(b"one\ntwo\n")
    assert ContainerOutputs(outputs).last_lines() == tuple(f"c{n}: two" for n in range(15))
