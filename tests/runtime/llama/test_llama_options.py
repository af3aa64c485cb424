"""What can be set of llama.cpp: refused where it makes no sense, and seen by native code where it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from runtime import Adapter, LlamaOptions, ModelFileError, ModelOptionsError, Rope, load_model
from runtime.llama.options import CacheType
from runtime.local.handles import LocalRuntime
from runtime.scheduling.plan import BatchPiece
from tests.runtime.conftest import installed_or_skip

TEXT = "What is seventeen times twenty-three?"


class TestValues:
    """Nothing is loaded."""

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"sequences": 0}, r"LlamaOptions.sequences must be a whole number from 1 to 255, not 0"),
            ({"sequences": 256}, r"from 1 to 255, not 256"),
            ({"sequences": True}, r"not True"),
            ({"cells": 1}, r"LlamaOptions.cells must be a whole number of at least 2, not 1"),
            ({"gpu_layers": -1}, r"gpu_layers must be a whole number of at least 0, not -1"),
            ({"gpu_layers": 1.5}, r"not 1.5"),
            ({"batch_threads": 0}, r"batch_threads must be a whole number of at least 1, not 0"),
            ({"key_type": "q3_k"}, r"key_type must be one of 'f32', 'f16', .* or None, not 'q3_k'"),
            ({"value_type": "q8_0", "flash_attention": False}, r"value_type='q8_0' needs flash attention"),
            ({"adapters": ["a.gguf"]}, r"adapters\[0\] must be an Adapter, not 'a.gguf'"),
        ],
    )
    def test_a_value_out_of_range_is_refused(self, wrong: dict[str, Any], message: str) -> None:
        """The message names the option, its range and the value."""
        with pytest.raises(ModelOptionsError, match=message):
            LlamaOptions(**wrong)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (
                {"scaling": "ntk"},
                r"Rope.scaling must be one of 'none', 'linear', .* or None, not 'ntk'",
            ),
            ({"base": 0}, r"Rope.base must be a number of at least 1, not 0"),
            ({"scale": 0.0}, r"Rope.scale must be a number of at least 1e-06, not 0.0"),
            ({"extrapolation": float("nan")}, r"Rope.extrapolation must be a number of at least 0, not nan"),
            ({"original_context": 0}, r"Rope.original_context must be a whole number of at least 1"),
        ],
    )
    def test_so_is_one_of_positions(self, wrong: dict[str, Any], message: str) -> None:
        """As above."""
        with pytest.raises(ModelOptionsError, match=message):
            Rope(**wrong)

    @pytest.mark.parametrize("scale", [float("inf"), "1"])
    def test_an_adapter_has_a_number_for_its_scale(self, scale: Any) -> None:
        """Any finite one, negative ones too."""
        with pytest.raises(ModelOptionsError, match=r"Adapter.scale must be a number, not"):
            Adapter("a.gguf", scale)
        assert Adapter("a.gguf", -1.5) == Adapter(Path("a.gguf"), -1.5)

    def test_options_are_values(self) -> None:
        """Equal options are equal and hash alike: a server may key its models by them."""
        one, other = (LlamaOptions(adapters=[Adapter("a.gguf", 0.5)], rope=Rope(base=1e6)) for _ in range(2))

        assert (one, hash(one)) == (other, hash(other))


@pytest.mark.mlx
def test_they_are_llama_cpps() -> None:
    """MLX has none of them, and says so instead of passing over them."""
    installed_or_skip("mlx")
    with pytest.raises(ModelOptionsError, match=r"is an MLX model, and options=LlamaOptions\(.*are llama.cpp's"):
        load_model(backend="mlx", options=LlamaOptions(gpu_layers=0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a model, two adapters for it, and one for another model."""
    installed_or_skip("llama")
    models = pytest.importorskip("tests.runtime.tiny_models")
    folder = tmp_path_factory.mktemp("models")
    models.write_model(folder / "model.gguf")
    models.write_adapter(folder / "one.gguf", seed=2)
    models.write_adapter(folder / "two.gguf", seed=3)
    models.write_adapter(folder / "wide.gguf", dim=2 * models.DIM)
    return folder


def loaded(folder: Path, *, threads: int | None = None, context_tokens: int | None = None, **options: Any) -> Any:
    return load_model(
        folder / "model.gguf", threads=threads, context_tokens=context_tokens, options=LlamaOptions(**options)
    )


def native_of(runtime: LocalRuntime) -> tuple[Any, Any]:
    import llama_cpp.llama_cpp as native

    return native, runtime._owner.call(lambda engine: engine._backend)


def logits(runtime: LocalRuntime) -> Any:
    """What the model says behind a text."""
    import numpy

    native, backend = native_of(runtime)

    def compute(_engine: Any) -> Any:
        backend.reset()
        backend.ready()
        assert backend.evaluate([BatchPiece(0, 0, 0, tuple(backend.tokenize(TEXT, special=False)), last=True)])
        row = native.llama_get_logits_ith(backend._context, backend._rows[-1])
        said = numpy.ctypeslib.as_array(row, shape=(backend.vocabulary,)).copy()
        backend.reset()
        return said

    return runtime._owner.call(compute)


def difference(one: Any, other: Any) -> float:
    return float(abs(one - other).max())


@pytest.mark.llama
class TestLoaded:
    def test_sizes_and_threads(self, folder: Path) -> None:
        """They are what the context has, and what the plan reckons with."""
        with loaded(folder, threads=1, context_tokens=300, sequences=3, cells=700, batch_threads=2) as model:
            native, backend = native_of(model)

            assert (backend.limits.sequences, backend.limits.cells) == (3, 700)
            assert model.describe().context_tokens == 300
            assert native.llama_n_ctx(backend._context) >= 700
            assert (native.llama_n_threads(backend._context), native.llama_n_threads_batch(backend._context)) == (1, 2)

    @pytest.mark.parametrize(
        ("options", "unified", "sequences"),
        [
            ({}, False, 32),
            ({"sequences": 5}, False, 5),
            ({"cells": 8 * 300}, False, 8),
            ({"cells": 8 * 300 - 1}, True, 32),
            ({"cells": 3 * 300, "sequences": 3}, False, 3),
            ({"unified": True}, True, 32),
            ({"cells": 700, "unified": False}, False, 2),
        ],
    )
    def test_layouts(self, folder: Path, options: dict[str, Any], unified: bool, sequences: int) -> None:
        """Cells of their own, where there is room for the full length of eight, or of as many as are wanted."""
        with loaded(folder, context_tokens=300, **options) as model:
            native, backend = native_of(model)
            longest = native.llama_n_ctx_seq(backend._context)

            assert (backend.limits.copies_share, backend.limits.sequences) == (unified, sequences)
            assert longest >= (backend.limits.cells if unified else 300)
            assert backend.limits.cells == (options.get("cells", 8 * 300) if unified else sequences * 300)

    @pytest.mark.parametrize(("room", "unified"), [(10, False), (9, False), (8, True)])
    def test_a_large_model_has_a_pool(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, room: int, unified: bool
    ) -> None:
        """Where eight conversations, and the one more that saving takes, are more than the memory that there is for
        them.
        """
        from runtime.llama import _loading as llama_loading
        from tests.runtime import tiny_models

        taken = (
            room * 512 * 2 * 2 * tiny_models.LAYERS * tiny_models.HEADS * tiny_models.HEAD
        )  # of keys and values, two bytes each
        monkeypatch.setattr(llama_loading, "SEPARATE_BYTES", taken)
        monkeypatch.setattr(llama_loading, "CACHE_BYTES", taken // 2)
        with loaded(folder, context_tokens=512, gpu_layers=0) as model:
            _, backend = native_of(model)

            assert backend.limits.copies_share == unified
            assert backend.limits.sequences == (32 if unified else 8)

    def test_on_a_small_machine_so_has_a_smaller_one(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Cells of their own take no more than a quarter of the memory that this process may use."""
        from runtime.llama import _loading as llama_loading
        from tests.runtime import tiny_models

        taken = 9 * 512 * 2 * 2 * tiny_models.LAYERS * tiny_models.HEADS * tiny_models.HEAD
        monkeypatch.setattr(llama_loading, "CACHE_BYTES", taken // 2)
        monkeypatch.setattr(llama_loading, "MEMORY_LIMIT", tmp_path / "memory.max")
        for limit, unified in (("max", False), (str(4 * taken), False), (str(4 * taken - 4), True)):
            (tmp_path / "memory.max").write_text(f"{limit}\n", "ascii")
            with loaded(folder, context_tokens=512, gpu_layers=0) as model:
                assert native_of(model)[1].limits.copies_share == unified

    def test_both_layouts_say_the_same(self, folder: Path) -> None:
        """But for rounding: attention is computed in another way."""
        with loaded(folder, unified=True) as model:
            one = logits(model)
        with loaded(folder, unified=False) as model:
            other = logits(model)

        assert difference(one, other) < 0.05 * one.std()

    def test_a_recurrent_model_has_one_pool(self, folder: Path, tmp_path: Path) -> None:
        """What is not for it is refused."""
        from tests.runtime import tiny_models

        file = tiny_models.write_model(tmp_path / "mamba.gguf", "mamba")
        with pytest.raises(ModelOptionsError, match="unified=False is not for recurrent and hybrid models"):
            load_model(file, options=LlamaOptions(unified=False))

    def test_threads_of_batches_follow_the_others(self, folder: Path) -> None:
        """Unless they are set."""
        with loaded(folder, threads=2) as model:
            native, backend = native_of(model)

            assert native.llama_n_threads_batch(backend._context) == 2

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"cells": 200, "context_tokens": 300}, "cells=200 has no room for one conversation of 300 tokens"),
            (
                {"cells": 20, "context_tokens": 10, "sequences": 21},
                "sequences=21 are more than the 20 tokens of a batch",
            ),
        ],
    )
    def test_sizes_that_do_not_go_together(self, folder: Path, options: dict[str, Any], message: str) -> None:
        """Told when the model's own numbers are known."""
        with pytest.raises(ModelOptionsError, match=message):
            loaded(folder, **options)

    def test_a_quantised_cache_is_smaller_and_says_nearly_the_same(self, folder: Path) -> None:
        """Half of the memory, and a small part of the spread of logits."""

        def bytes_held(model: LocalRuntime) -> int:
            native, backend = native_of(model)

            def size(_engine: Any) -> int:
                backend.evaluate([BatchPiece(0, 0, 0, tuple(range(100)), last=True)])
                held = int(native.llama_state_seq_get_size(backend._context, 0))
                backend.reset()
                return held

            return model._owner.call(size)

        with loaded(folder) as model:
            plain, whole = logits(model), bytes_held(model)
        with loaded(folder, key_type="q8_0", value_type="q8_0") as model:
            rounded, half = logits(model), bytes_held(model)

        assert half < 0.65 * whole
        assert 0 < difference(rounded, plain) < 0.2 * plain.std()

    @pytest.mark.parametrize("kind", get_args(CacheType))
    @pytest.mark.parametrize("values", [False, True])
    def test_every_kind_of_cache(self, folder: Path, kind: CacheType, values: bool) -> None:
        """Nearly the same logits with each, by its precision; another one for each of them."""
        usual: dict[str, Any] = {"key_type": "f16", "value_type": "f16"}
        with loaded(folder, **usual) as model:
            plain = logits(model)
        with loaded(folder, **usual | {"value_type" if values else "key_type": kind}) as model:
            rounded = logits(model)

        bound = {"f16": 0.05, "f32": 0.05, "bf16": 0.1, "q8_0": 0.2}.get(kind, 1.0)
        assert difference(rounded, plain) <= bound * plain.std()
        assert (difference(rounded, plain) == 0) == (kind == "f16")

    @pytest.mark.parametrize(
        ("processor", "options", "expected"),
        [
            (b"AVX512 = 1 | AVX512_BF16 = 1 | ", {}, ("bf16", "bf16")),
            (b"AVX512 = 1 | AVX512_BF16 = 1 | ", {"value_type": "f16"}, ("bf16", "f16")),
            (b"AVX512 = 1 | AVX512_BF16 = 1 | ", {"flash_attention": True}, ("f16", "f16")),
            (b"AVX512 = 1 | AVX512_BF16 = 1 | ", {"unified": True}, ("f16", "f16")),
            (b"AVX512 = 1 | AVX512_BF16 = 1 | ", {"key_type": "q8_0", "value_type": "q8_0"}, ("q8_0", "q8_0")),
            (b"AVX512 = 1 | ", {}, ("f16", "f16")),
        ],
    )
    def test_the_usual_kind_of_cache_is_what_the_processor_is_best_at(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        processor: bytes,
        options: dict[str, Any],
        expected: tuple[CacheType, CacheType],
    ) -> None:
        """And with flash attention, which is slow with bfloat16, what it is best at."""
        from runtime.llama import _loading as llama_loading

        monkeypatch.setattr(llama_loading.native, "llama_print_system_info", lambda: b"CPU : " + processor)
        monkeypatch.setattr(llama_loading.native, "llama_supports_gpu_offload", lambda: False)
        with loaded(folder, **options) as model:
            _, backend = native_of(model)
            planned = backend._planned

        assert (planned.key_type, planned.value_type) == expected

    @pytest.mark.parametrize(
        ("context", "head", "options", "expected"),
        [
            (512, 64, {}, None),
            (513, 64, {}, False),
            (512, 65, {}, False),
            (512, 64, {"flash_attention": False}, False),
            (4096, 128, {"flash_attention": True}, True),
            (4096, 128, {"unified": True}, None),
            (4096, 128, {"value_type": "q8_0"}, None),
        ],
    )
    def test_where_a_processor_has_flash_attention(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        context: int,
        head: int,
        options: dict[str, Any],
        expected: bool | None,
    ) -> None:
        """Where it is the faster one, unless somebody says; None leaves it to llama.cpp, which has it."""
        from runtime.llama import _loading as llama_loading

        monkeypatch.setattr(llama_loading.native, "llama_supports_gpu_offload", lambda: False)
        monkeypatch.setattr(llama_loading, "_head", lambda _model: head)
        with loaded(folder, context_tokens=context, **options) as model:
            _, backend = native_of(model)

            assert backend._planned.flash_attention is expected

    def test_flash_attention_on_and_off(self, folder: Path) -> None:
        """Two ways to the same numbers."""
        with loaded(folder, flash_attention=True) as model:
            on = logits(model)
        with loaded(folder, flash_attention=False) as model:
            off = logits(model)

        assert 0 < difference(on, off) < 0.05 * on.std()

    @pytest.mark.parametrize(
        "options", [{"mmap": False}, {"mmap": True}, {"gpu_layers": 0}, {"mmap": False, "mlock": True}]
    )
    def test_where_weights_lie_changes_nothing(self, folder: Path, options: dict[str, Any]) -> None:
        """The logits are the same to the bit."""
        with loaded(folder) as model:
            plain = logits(model)
        with loaded(folder, **options) as model:
            assert difference(logits(model), plain) == 0

    def test_positions(self, folder: Path) -> None:
        """The model's own values change nothing; every other one does."""
        with loaded(folder) as model:
            plain = logits(model)
        changed = {}
        for name, rope in {
            "own": Rope(base=10_000.0, scale=1.0),
            "base": Rope(base=500_000.0),
            "linear": Rope(scaling="linear", scale=0.25),
            "yarn": Rope(scaling="yarn", scale=0.25, original_context=1024),
            "yarn, all": Rope(
                scaling="yarn",
                scale=0.25,
                original_context=64,
                extrapolation=0.5,
                attention=0.8,
                beta_fast=16,
                beta_slow=2,
            ),
        }.items():
            with loaded(folder, rope=rope) as model:
                changed[name] = difference(logits(model), plain)

        assert changed.pop("own") == 0
        assert all(changed.values()), changed
        assert len(set(changed.values())) == len(changed)


@pytest.mark.llama
class TestAdapters:
    def test_an_adapter_changes_what_the_model_says(self, folder: Path) -> None:
        """By its scale: at 0 by nothing, twice at a half as once at 1, and two by what both do."""
        one, two = folder / "one.gguf", folder / "two.gguf"
        said = {}
        for name, adapters in {
            "none": [],
            "off": [Adapter(one, 0.0)],
            "one": [Adapter(one)],
            "halves": [Adapter(one, 0.5), Adapter(one, 0.5)],
            "two": [Adapter(two)],
            "both": [Adapter(one), Adapter(two)],
        }.items():
            with loaded(folder, adapters=adapters) as model:
                said[name] = logits(model)
        spread = said["none"].std()

        assert difference(said["off"], said["none"]) == 0
        assert difference(said["one"], said["none"]) > 0.1 * spread
        assert difference(said["halves"], said["one"]) < 1e-3 * spread
        assert difference(said["both"], said["one"]) > 0.1 * spread
        assert difference(said["both"], said["two"]) > 0.1 * spread

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("none.gguf", "there is no adapter .*none.gguf"),
            ("wide.gguf", "can't load the adapter .*wide.gguf .*made for this model"),
            ("model.gguf", "can't load the adapter .*model.gguf .*has to be a LoRA adapter"),
        ],
    )
    def test_what_is_no_adapter_for_this_model(self, folder: Path, name: str, message: str) -> None:
        """It is named, with llama.cpp's reason."""
        with pytest.raises(ModelOptionsError, match=message):
            loaded(folder, adapters=[Adapter(folder / name)])

    def test_a_model_that_is_an_adapter(self, folder: Path) -> None:
        """The other way round it is a file that can't be loaded."""
        with pytest.raises(ModelFileError):
            load_model(folder / "one.gguf")
