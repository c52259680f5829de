"""Jobs on a pool of sessions: the right text, whose turn it is, what is computed again, what ends a job."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from etir.llm.prefix import common
from etir.llm.sampling import Sampling
from etir.llm.serve.jobs import Done, Event, Job, Piece, Waiting
from etir.llm.serve.pool import PIECE, Pool
from etir.llm.serve.refusals import Refusal
from etir.llm.serve.requests import Request
from etir.llm.serve.service import Limits, Service

from etir_testing.llm.engine import NAN, ByteModel, answer_of


@contextmanager
def running(model: ByteModel, limits: Limits | None = None) -> Iterator[Service]:
    service = Service(model, limits)
    service.start()
    try:
        yield service
    finally:
        service.stop()
        service.join()
        assert model.open == 0


class Told(list[Event]):
    """What a job has told, and an event for its end."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = threading.Event()

    def __call__(self, event: Event) -> None:
        self.append(event)
        if not isinstance(event, Piece):
            self.ended.set()

    @property
    def text(self) -> str:
        assert self.ended.wait(30), "the job does not end"
        return "".join(event.text for event in self if isinstance(event, Piece))

    @property
    def end(self) -> Any:
        assert self.ended.wait(30), "the job does not end"
        return self[-1]


def job(prompt: str, *, user: str = "", **fields: Any) -> tuple[Job, Told]:
    told = Told()
    settings = fields.pop("settings", Sampling())
    return Job(Request(True, "m", settings, user=user, **fields), list(prompt.encode()), told), told


def test_the_text_is_the_model_s() -> None:
    model = ByteModel()
    with running(model, Limits(sessions=3)) as service:
        jobs = [job(f"prompt {i}", settings=Sampling(temperature=1.0, seed=i)) for i in range(12)]
        for one, _ in jobs:
            service.submit(one)
        for one, told in jobs:
            ids, text = answer_of(one.ids, one.request.settings)
            assert told.text == text
            assert told.end == Done("stop", told.end.usage) and told.end.usage.generated_tokens == len(ids)
        assert service.sessions == 3 and service.counters.completed == 12


def test_a_conversation_goes_on_where_its_cache_is() -> None:
    model = ByteModel()
    with running(model, Limits(sessions=2)) as service:
        history, other, held = "tell me" * 50, "something else", 0
        for _ in range(3):
            first, told = job(history, max_tokens=20)
            second, told_other = job(other, max_tokens=20)
            service.submit(first)
            service.submit(second)
            assert told.end.usage.reused_tokens == held
            held = len(first.ids) + 19  # The last token that was generated is in no cache yet.
            assert (told.text, told_other.text) == (answer_of(first.ids, most=20)[1], answer_of(second.ids, most=20)[1])
            history += told.text + ". go on"
            other += told_other.text + "?"


def test_an_answer_that_is_asked_for_again_computes_one_token_of_the_prompt() -> None:
    model = ByteModel()
    with running(model) as service:
        for turn in range(2):
            one, told = job("x" * 3 * PIECE)
            service.submit(one)
            assert told.text == answer_of(one.ids)[1]
            assert told.end.usage.reused_tokens == (3 * PIECE - 1 if turn else 0)
        assert service.sessions == 1 and model.prefilled == 3 * PIECE + 1


def test_a_long_cache_is_not_given_up_for_a_few_common_words() -> None:
    model = ByteModel()
    pool = Pool(model.session, 2)
    long = pool.take(list(range(100)))
    long.session.prefill(list(range(100)))
    pool.give(long)
    assert pool.take([*range(20), *range(200, 230)]) is not long
    assert pool.take(list(range(95))) is long
    assert not pool.has_free


def test_the_oldest_cache_makes_room() -> None:
    model = ByteModel()
    pool = Pool(model.session, 2)
    slots = [pool.take([i]) for i in (1, 2)]
    for slot, token in zip(slots, (1, 2), strict=True):
        slot.session.prefill([token] * 10)
        pool.give(slot)
    assert pool.take([3, 3]) is slots[0]
    assert pool.take([2] * 11) is slots[1]


@pytest.mark.parametrize(("a", "b", "count"), [([], [], 0), ([1], [], 0), ([1, 2], [1, 2, 3], 2), ([1, 2], [1, 3], 1)])
def test_what_is_common(a: list[int], b: list[int], count: int) -> None:
    assert common(a, b) == common(b, a) == count


def test_a_short_answer_does_not_wait_for_a_long_one() -> None:
    with running(ByteModel(delay=0.001), Limits(sessions=2)) as service:
        long, told_long = job("z" * 20 * PIECE, max_tokens=100)
        short, told = job("hi", max_tokens=3)
        service.submit(long)
        service.submit(short)
        assert told.end.finish == "length"
        assert not told_long.ended.is_set()


def test_users_take_turns() -> None:
    line = Waiting()
    jobs = [job(str(i), user=user)[0] for i, user in enumerate("aaabbc")]
    for one in jobs:
        line.add(one)
    assert line.remove(jobs[1]) and not line.remove(jobs[1]) and len(line) == 5
    assert [one.request.user for one in line.drain()] == ["a", "b", "c", "a", "b"]
    assert len(line) == 0


def test_a_canceled_job_ends_before_its_next_token() -> None:
    model = ByteModel(delay=0.02)
    with running(model, Limits(sessions=1)) as service:
        one, told = job("a", max_tokens=500, settings=Sampling(temperature=1.0))
        waiting, told_waiting = job("b")
        service.submit(one)
        service.submit(waiting)
        while len(told) < 3:
            time.sleep(0.001)
        service.cancel(waiting)
        service.cancel(one)
        said = len(told)
        after, told_after = job("c", max_tokens=1)
        service.submit(after)
        assert told_after.end.finish == "length"
        assert len(told) <= said + 1 and not told_waiting
        assert service.counters.canceled == 2 and model.open == 0


def test_a_canceled_prompt_is_not_computed_to_its_end() -> None:
    model = ByteModel(context=100_000, delay=0.001)
    with running(model, Limits(sessions=1)) as service:
        one, told = job("a" * 50_000)
        service.submit(one)
        while not model.prefilled:
            time.sleep(0.001)
        service.cancel(one)
        after, told_after = job("b", max_tokens=1)
        service.submit(after)
        assert told_after.end.finish == "length"
        assert not told and model.prefilled < 20_000


def test_a_model_that_fails_ends_its_job_only() -> None:
    model = ByteModel()
    with running(model, Limits(sessions=2)) as service:
        bad, told_bad = job("x")
        bad.ids.append(NAN)
        good, told = job("y")
        service.submit(bad)
        service.submit(good)
        assert told_bad.end.diagnostic.id.id == "E1751" and "NaN" in told_bad.end.diagnostic.message
        assert told.text == answer_of(good.ids)[1]
        again, told_again = job("x")
        service.submit(again)
        assert told_again.text == answer_of(again.ids)[1]
        assert service.counters.failed == 1


def test_a_bug_of_the_model_ends_its_job_only(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ByteModel()
    monkeypatch.setattr(model.tokenizer, "decode", None)
    with running(model) as service:
        bad, told = job("x", stop=(3,))  # type: ignore[arg-type]
        service.submit(bad)
        assert told.end.diagnostic.id.id == "E1751" and "TypeError" in told.end.diagnostic.message
        good, told = job("y")
        service.submit(good)
        assert told.text == answer_of(good.ids)[1]


def test_no_more_wait_than_there_is_room_for() -> None:
    with running(ByteModel(delay=0.05), Limits(sessions=1, queue=2)) as service:
        for _ in range(3):
            service.submit(job("a")[0])
        with pytest.raises(Refusal) as caught:
            service.submit(job("a")[0])
        assert caught.value.diagnostic.id.id == "E1748" and int(caught.value.headers["Retry-After"]) >= 1
        assert service.counters.refused == 1


def test_an_answer_has_a_time() -> None:
    with running(ByteModel(delay=0.01), Limits(seconds=0.05)) as service:
        one, told = job("a", max_tokens=10_000, settings=Sampling(temperature=1.0))
        service.submit(one)
        assert told.end.diagnostic.id.id == "E1750"
        assert len(told) < 20


def test_answers_end_within_the_grace() -> None:
    service = Service(ByteModel(delay=0.005), Limits(sessions=1))
    service.start()
    short, told = job("a", max_tokens=5)
    service.submit(short)
    service.stop(grace=20)
    with pytest.raises(Refusal) as caught:
        service.submit(job("b")[0])
    assert caught.value.diagnostic.id.id == "E1752"
    service.join()
    assert told.end.finish == "length"


def test_what_does_not_end_within_the_grace_is_told_so() -> None:
    model = ByteModel(delay=0.01)
    service = Service(model, Limits(sessions=1))
    service.start()
    jobs = [job("a", max_tokens=10_000, settings=Sampling(temperature=1.0, seed=1)) for _ in range(2)]
    for one, _ in jobs:
        service.submit(one)
    service.stop(grace=0.05)
    service.join()
    assert [told.end.diagnostic.id.id for _, told in jobs] == ["E1752", "E1752"]
    assert model.open == 0


def test_the_rate_is_of_the_last_seconds() -> None:
    with running(ByteModel(delay=0.005)) as service:
        one, told = job("a", max_tokens=40)
        service.submit(one)
        assert told.end.finish in ("length", "stop")
        assert 20 < service.rate() <= 200
