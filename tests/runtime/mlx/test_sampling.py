"""Our samplers against llama.cpp's: the same tokens are left, with the same logits."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy
import pytest
from hypothesis import example, given, strategies as st

from cognition import GenerationOptions
from runtime.mlx._sampling import NumpySampler
from tests.runtime.conftest import installed_or_skip

LOGITS = st.lists(st.integers(-40, 40).map(lambda n: n / 4 + n % 3 / 100), min_size=2, max_size=12, unique=True)
SHARES = st.integers(1, 19).map(lambda n: n / 20 + 0.001)
OPTIONS = st.builds(
    GenerationOptions,
    temperature=st.just(1.0),
    seed=st.integers(0, 9),
    top_k=st.integers(0, 13),
    top_p=st.just(1.0) | SHARES,
    min_p=st.just(0.0) | SHARES,
    repeat_penalty=st.sampled_from([1.0, 1.3, 0.8]),
    frequency_penalty=st.sampled_from([0.0, 0.5, -0.25]),
    presence_penalty=st.sampled_from([0.0, 0.7]),
    logit_bias=st.lists(
        st.tuples(st.integers(0, 15), st.sampled_from([-3.0, 2.5])), max_size=2, unique_by=lambda b: b[0]
    ).map(tuple),
)


def left_by_llama(options: GenerationOptions, logits: list[float], said: list[int]) -> dict[int, float]:
    """What llama.cpp's chain, without its last two samplers (temperature and chance), leaves of these logits."""
    import llama_cpp.llama_cpp as native

    from runtime.llama._sampler import LlamaSampler

    sampler: Any = LlamaSampler(options, len(logits))
    chain = sampler._chain
    for _ in range(2):
        last = native.llama_sampler_chain_n(chain) - 1
        native.llama_sampler_free(native.llama_sampler_chain_remove(chain, last))
    for token in said:
        native.llama_sampler_accept(chain, token)
    data = (native.llama_token_data * len(logits))(*[(token, logit, 0.0) for token, logit in enumerate(logits)])
    array = native.llama_token_data_array(data=data, size=len(logits), selected=-1, sorted=False)
    native.llama_sampler_apply(chain, ctypes.byref(array))
    left = {array.data[i].id: array.data[i].logit for i in range(array.size)}
    sampler.close()
    return {token: logit for token, logit in left.items() if logit > -1e30}


def left_by_us(options: GenerationOptions, logits: list[float], said: list[int]) -> dict[int, float]:
    sampler = NumpySampler(options)
    sampler._sampled.extend(said)
    tokens, left = sampler.remaining_tokens(numpy.array(logits))
    assert list(tokens) == sorted(set(tokens))
    return {int(token): float(logit) for token, logit in zip(tokens, left, strict=True) if logit > -1e30}


@pytest.mark.llama
@given(options=OPTIONS, logits=LOGITS, data=st.data())
def test_what_is_left_is_what_llama_cpp_leaves(
    options: GenerationOptions, logits: list[float], data: st.DataObject
) -> None:
    """All options together, after some tokens have been said."""
    installed_or_skip("llama")
    said = data.draw(st.lists(st.integers(0, len(logits) - 1), max_size=4))
    theirs, ours = left_by_llama(options, logits, said), left_by_us(options, logits, said)

    assert ours == pytest.approx(theirs, abs=1e-4)


@pytest.mark.llama
@given(logits=LOGITS, share=SHARES)
def test_typical_tokens_are_those_of_llama_cpp(logits: list[float], share: float) -> None:
    """With what a mask forbids among them."""
    installed_or_skip("llama")
    options = GenerationOptions(temperature=1.0, typical_p=share)
    masked = [*logits, -numpy.inf]

    assert left_by_us(options, masked, []) == pytest.approx(left_by_llama(options, masked, []), abs=1e-4)


@pytest.mark.llama
@given(logits=LOGITS | st.lists(st.sampled_from([0.0, 1.0, -numpy.inf]), min_size=2, max_size=8), options=OPTIONS)
@example(logits=[0.0, 1.0, 0.5], options=GenerationOptions(logit_bias=((0, 1.0),)))
@example(logits=[1.0, 0.0, 0.5], options=GenerationOptions(logit_bias=((1, 1.0),)))
@example(logits=[1.0, 0.0, 0.0], options=GenerationOptions(logit_bias=((0, -1.0),)))
@example(logits=[0.0, 1.0], options=GenerationOptions(logit_bias=((0, 1.0), (1, -1.0))))
def test_the_likeliest_is_the_one_that_llama_cpp_takes(logits: list[float], options: GenerationOptions) -> None:
    """The short way of greedy sampling, for which no chain is made; of equal ones, the first."""
    installed_or_skip("llama")
    import llama_cpp.llama_cpp as native

    from runtime.llama._sampler import LlamaSampler

    biases = [pair for pair in options.logit_bias if pair[0] < len(logits)]
    chain = native.llama_sampler_chain_init(native.llama_sampler_chain_default_params())
    pairs = (native.llama_logit_bias * len(biases))(*[native.llama_logit_bias(*pair) for pair in biases])
    native.llama_sampler_chain_add(chain, native.llama_sampler_init_logit_bias(len(logits), len(biases), pairs))
    native.llama_sampler_chain_add(chain, native.llama_sampler_init_greedy())
    data = (native.llama_token_data * len(logits))(*[(token, logit, 0.0) for token, logit in enumerate(logits)])
    array = native.llama_token_data_array(data=data, size=len(logits), selected=-1, sorted=False)
    native.llama_sampler_apply(chain, ctypes.byref(array))
    theirs = array.data[array.selected].id
    native.llama_sampler_free(chain)
    sampler = LlamaSampler(GenerationOptions(logit_bias=options.logit_bias), len(logits))
    given_logits = numpy.array(logits, numpy.float32)

    assert sampler.plain
    assert sampler.likeliest(given_logits) == theirs
    assert list(given_logits) == list(numpy.array(logits, numpy.float32))


@given(options=OPTIONS, logits=LOGITS)
def test_what_is_sampled_is_one_of_those_left(options: GenerationOptions, logits: list[float]) -> None:
    """And the same again for the same seed."""
    first, second = (NumpySampler(options).sample(numpy.array(logits)) for _ in range(2))

    assert first == second
    assert first in left_by_us(options, logits, [])


@given(logits=LOGITS, share=SHARES, often=st.integers(1, 60))
def test_top_p_of_many_is_what_sorting_all_gives(logits: list[float], share: float, often: int) -> None:
    """Also where the first few of a large vocabulary are not enough, and where tokens are equally likely."""
    many = numpy.repeat(numpy.array(logits), often)
    order = numpy.argsort(-many, kind="stable")
    weights = numpy.exp(many[order] - many.max())
    reached = int((weights.cumsum() / weights.sum() >= share).argmax())
    left = left_by_us(GenerationOptions(temperature=1.0, top_p=share), list(many), [])

    assert abs(len(left) - reached - 1) <= 1  # sums of the same numbers in another order may differ in their last bit
    assert sorted(left) == sorted(map(int, order[: len(left)]))


@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.9}, {"min_p": 0.1}])
def test_tokens_come_as_often_as_they_should(options: dict[str, Any]) -> None:
    """In proportion to what is left of them, at the temperature; 4,000 draws, five standard deviations."""
    sampler = NumpySampler(GenerationOptions(temperature=0.8, seed=3, **options))
    logits = numpy.array([0.0, 1.0, -numpy.inf, 2.0, -1.0, 1.5])
    tokens, left = sampler.remaining_tokens(logits)
    expected = numpy.zeros(logits.size)
    expected[tokens] = numpy.exp(left / 0.8) / numpy.exp(left / 0.8).sum()
    counts = numpy.bincount([sampler.sample(logits) for _ in range(4000)], minlength=logits.size)

    assert (abs(counts / 4000 - expected) <= 5 * numpy.sqrt(expected * (1 - expected) / 4000)).all()


def test_greedy_takes_the_likeliest_after_biases_and_penalties() -> None:
    """Whatever else is asked for."""
    sampler = NumpySampler(GenerationOptions(logit_bias=((1, 5.0),), presence_penalty=2.0, top_k=1, min_p=0.9))
    logits = numpy.array([3.0, -1.5, 2.0])

    assert [sampler.sample(logits) for _ in range(3)] == [1, 0, 2]
    assert NumpySampler(GenerationOptions(top_p=0.1)).plain
    assert not sampler.plain


@pytest.mark.parametrize("temperature", [1e-320, 1e-308, 1e-20, 0.001])
@given(logits=LOGITS)
def test_so_low_a_temperature_takes_the_likeliest(temperature: float, logits: list[float]) -> None:
    """Also one by which a difference of logits has no quotient that a number could hold."""
    sampler = NumpySampler(GenerationOptions(temperature=temperature, seed=3))

    assert sampler.sample(numpy.array(logits)) == numpy.argmax(logits)
