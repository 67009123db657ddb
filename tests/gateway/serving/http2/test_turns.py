"""Whose turn it is to send, with streams and windows that are numbers."""

from __future__ import annotations

from partway.gateway.serving.http2.turns import SendingTurns

FRAME = 10


class Stream:
    """One with so many bytes to send, and a window of its own."""

    def __init__(self, on: Windows, name: str, size: int, window: int) -> None:
        self.name, self.size, self.window = name, size, window
        self._on = on

    def send_frame(self) -> int:
        sent = min(self.size, self.window, self._on.shared, FRAME)
        self.size -= sent
        self.window -= sent
        self._on.shared -= sent
        self._on.asked.append((self.name, sent))
        return sent

    @property
    def wants_to_send(self) -> bool:
        return self.size > 0


class Windows:
    """The windows, and the streams in the order of their turns, with what each of them sent."""

    def __init__(self, shared: int = 10_000) -> None:
        self.shared = shared
        self.asked: list[tuple[str, int]] = []
        self.turns = SendingTurns(self)

    def own_window(self, stream: Stream) -> int:
        return stream.window

    def shared_window(self) -> int:
        return self.shared

    def stream(self, name: str, size: int, window: int = 10_000) -> Stream:
        """One that has something to send."""
        stream = Stream(self, name, size, window)
        self.turns.add(stream)
        return stream

    def send(self, size: int = 10_000) -> list[tuple[str, int]]:
        """Turns until so much is sent."""
        self.asked.clear()
        self.turns.send(size)
        return list(self.asked)


def test_streams_take_turns_by_frames():
    on = Windows()
    on.stream("a", 25)
    on.stream("b", 10)
    assert on.send() == [("a", 10), ("b", 10), ("a", 10), ("a", 5)]
    assert on.send() == []


def test_no_more_than_was_asked_for_but_to_a_frame_s_end():
    on = Windows()
    on.stream("a", 100)
    on.stream("b", 100)
    assert on.send(15) == [("a", 10), ("b", 10)]
    assert on.send(1) == [("a", 10)]
    assert on.send(1) == [("b", 10)]


def test_a_stream_waits_for_its_own_window():
    on = Windows()
    a = on.stream("a", 10, window=4)
    assert on.send() == [("a", 4), ("a", 0)]
    on.turns.add(a)  # it has more to send, and still no window
    assert on.send() == []
    a.window = 100
    on.turns.window_opened(a)
    assert on.send() == [("a", 6)]


def test_settings_may_open_every_window():
    on = Windows()
    a, b = on.stream("a", 5, window=0), on.stream("b", 5, window=0)
    assert on.send() == [("a", 0), ("b", 0)]
    a.window = b.window = 5
    on.turns.every_window_changed()
    assert on.send() == [("a", 5), ("b", 5)]


def test_streams_wait_for_the_shared_window_in_their_order():
    on = Windows(shared=0)
    for name in "abc":
        on.stream(name, 20)
    assert on.send() == [("a", 0), ("b", 0), ("c", 0)]
    assert on.send() == []
    on.shared = 15
    assert on.send() == [("a", 10), ("b", 5), ("a", 0), ("b", 0)]
    on.shared = 5
    assert on.send()[0] == ("c", 5)


def test_a_byte_of_it_does_not_wake_all_that_wait():
    """Each finds that its last event does not fit: more than a few are not even asked."""
    on = Windows(shared=0)

    class Unfitting(Stream):
        def send_frame(self) -> int:
            self._on.asked.append((self.name, 0))
            return 0

    for number in range(1000):
        on.turns.add(Unfitting(on, str(number), 5, 10))
    assert len(on.send()) == 1000
    on.shared = 1
    assert len(on.send()) == 8
    assert on.send()[0] == ("8", 0)


def test_a_stream_that_is_over_has_no_turn():
    on = Windows()
    ready, own = on.stream("ready", 5), on.stream("own", 5, window=0)
    on.send(0)
    on.turns.remove(ready)
    assert on.send() == [("own", 0)]
    on.turns.remove(own)
    own.window = 5
    on.turns.window_opened(own)
    on.turns.every_window_changed()
    on.shared = 0
    shared = on.stream("shared", 5)
    on.send()
    on.turns.remove(shared)
    on.shared = 100
    assert on.send() == []
