"""The result cache: names that tell everything apart, bounded in entries and bytes."""

from __future__ import annotations

from adapters.tasks.answerer import AnswerOptions
from kbengine.inputs import Dialogue, Mention, Question, Slot
from kbengine.search.query import SearchOptions, Weights
from kbengine.span import Span
from web.result_cache import ResultCache, cache_tag, request_key


def test_equal_requests_have_one_name_and_others_have_others():
    """Whatever differs: task, text, any option, encoder, generation; also where texts meet."""
    options = AnswerOptions()
    names = [
        cache_tag(request_key(Question("x"), options), 1, "a"),
        cache_tag(request_key(Question("x"), options), 2, "a"),
        cache_tag(request_key(Question("x"), options), 1, "b"),
        cache_tag(request_key(Question("x "), options), 1, "a"),
        cache_tag(request_key(Question("x"), AnswerOptions(k=9)), 1, "a"),
        cache_tag(request_key(Question("x"), AnswerOptions(weights=Weights())), 1, "a"),
        cache_tag(request_key(Question("x"), AnswerOptions(weights=Weights(2.0))), 1, "a"),
        cache_tag(request_key(Question("x"), SearchOptions()), 1, "a"),
        cache_tag(request_key(Slot("x", "y z"), options), 1, "a"),
        cache_tag(request_key(Slot("x y", "z"), options), 1, "a"),
        cache_tag(request_key(Dialogue(("x", "y")), options), 1, "a"),
        cache_tag(request_key(Dialogue(("x', 'y",)), options), 1, "a"),
        cache_tag(request_key(Mention("xyz", Span(0, 1)), options), 1, "a"),
        cache_tag(request_key(Mention("xyz", Span(0, 2)), options), 1, "a"),
    ]

    assert len(set(names)) == len(names)
    assert cache_tag(request_key(Question("x"), AnswerOptions(k=10)), 1, "a") == names[0]
    assert cache_tag(request_key(Question("\ud800"), options), 1, "a")  # no text is too odd for a name


def test_the_answer_that_was_not_used_for_longest_is_forgotten():
    """A look-up counts as use."""
    cache = ResultCache(2)
    cache.put("a", {"n": 1}, 10)
    cache.put("b", {"n": 2}, 10)
    cache.get("a")
    cache.put("c", {"n": 3}, 10)

    assert (cache.get("a"), cache.get("b"), cache.get("c")) == ({"n": 1}, None, {"n": 3})


def test_the_answers_together_are_bounded_and_none_takes_most_of_it():
    """In bytes of JSON; putting one again does not count twice."""
    cache = ResultCache(1000, max_bytes=80)
    for _ in range(5):
        cache.put("a", {}, 10)
    cache.put("big", {}, 11)
    for i in range(20):
        cache.put(str(i), {}, 10)

    assert cache.get("big") is None
    assert len(cache) == 8 and cache.get("19") == {} and cache.get("11") is None


def test_a_cache_of_nothing_keeps_nothing():
    """It is how it is turned off."""
    cache = ResultCache(0)
    cache.put("a", {}, 1)

    assert cache.get("a") is None and len(cache) == 0
