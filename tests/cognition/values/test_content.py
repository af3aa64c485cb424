"""Content of messages beside plain text: pictures, their checks, their price, and how they stand in history."""

from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given, strategies as st

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    CodecError,
    ConfigError,
    EffectId,
    Failure,
    Image,
    Input,
    LLMEngine,
    Message,
    ModelFailed,
    TextPart,
    UserMessage,
    UserSpoke,
    fold,
    from_data,
    to_data,
)
from cognition.context import IMAGE_TOKENS, message_size
from cognition.values.content import (
    BEGINNINGS,
    LARGEST_IMAGE,
    LARGEST_IMAGES,
    MediaType,
    Part,
    format_size,
    images_of,
    media_type_of,
    text_of,
    text_with_placeholders,
)

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
FILES: dict[MediaType, tuple[bytes, ...]] = {
    **BEGINNINGS,
    "image/webp": (b"RIFF\x24\x00\x00\x00WEBPVP8 ",),
}
DOT = Image.of(PNG)

parts = st.lists(st.builds(TextPart, st.text(max_size=5)) | st.just(DOT), max_size=5).map(tuple)


@pytest.mark.parametrize(("kind", "beginning"), [(kind, one) for kind, some in FILES.items() for one in some])
def test_the_kind_of_a_picture_shows_in_its_first_bytes(kind: MediaType, beginning: bytes) -> None:
    image = Image.of(beginning + b"the rest")

    assert image.media_type == kind
    assert image.content == beginning + b"the rest"
    assert image == Image(kind, b64encode(beginning + b"the rest").decode()) == Image.of(image.content, kind)


@given(st.binary(max_size=40))
def test_a_picture_keeps_its_bytes_and_knows_their_number(rest: bytes) -> None:
    image = Image.of(PNG + rest)

    assert (image.content, image.size) == (PNG + rest, len(PNG + rest))
    assert from_data(to_data(image), Part) == image


@pytest.mark.parametrize(
    ("media_type", "data", "said"),
    [
        (
            "image/png",
            b64encode(b"\xff\xd8\xff\xe0").decode(),
            "said to be image/png, and its bytes are those",
        ),
        ("image/png", b64encode(b"<svg>").decode(), "its bytes are those of no such file"),
        ("image/webp", b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt ").decode(), "no such file"),
        ("image/png", "", "no such file"),
        ("image/png", "iVBORw0KGgo", "no base64"),
        ("image/png", "iVBORw0K\nGgo=", "no base64"),
        ("image/png", "data:image/png;base64,iVBORw0KGgo=", "no base64"),
        ("image/png", "ä" * 8, "no base64"),
        (
            "image/svg+xml",
            b64encode(b"<svg>").decode(),
            "one of image/png, image/jpeg, image/gif, image/webp, not 'image/svg+xml'",
        ),
        ("image/PNG", b64encode(PNG).decode(), "one of image/png"),
        ("image/\x1b[31m" + "x" * 500, b64encode(PNG).decode(), "one of image/png"),
        (None, b64encode(PNG).decode(), "one of image/png"),
        ("image/png", PNG, "takes bytes"),
        ("image/png", "A" * (LARGEST_IMAGE * 4 // 3 + 8), "10.0 MB may be sent"),
    ],
)
def test_what_is_no_picture_is_refused_with_a_reason(media_type: MediaType, data: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Image(media_type, data)

    assert said in str(caught.value)
    assert len(str(caught.value)) < 150
    with pytest.raises(CodecError):
        from_data({"type": "image", "media_type": media_type, "data": data}, Part)


@pytest.mark.parametrize(
    ("content", "media_type", "said"),
    [
        (b"", None, "no image of a kind that can be sent"),
        (b"%PDF-1.7", None, "no image of a kind that can be sent"),
        (PNG, "image/gif", "said to be image/gif, and its bytes are those of image/png"),
        (PNG + bytes(LARGEST_IMAGE), None, "too large"),
        ("x.png", None, "takes the bytes of a file, not str"),
    ],
)
def test_bytes_that_are_no_picture_are_refused_with_a_reason(
    content: bytes, media_type: MediaType | None, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        Image.of(content, media_type)


def test_a_picture_of_the_largest_size_may_be_sent() -> None:
    assert Image.of(PNG + bytes(LARGEST_IMAGE - len(PNG))).size == LARGEST_IMAGE


def test_the_pictures_of_a_message_are_bounded_together() -> None:
    half = Image.of(PNG + bytes(LARGEST_IMAGES // 2 - len(PNG)))

    UserSpoke("", parts=(half, half))
    with pytest.raises(ConfigError, match=r"20\.0 MB together; 20\.0 MB may be sent at once"):
        UserSpoke("", parts=(half, half, DOT))


def test_a_picture_shows_as_its_kind_and_size_and_never_as_its_bytes() -> None:
    image = Image.of(PNG + bytes(12 * 1024 - len(PNG)))

    assert str(image) == "[image image/png, 12 KB]"
    assert repr(image) == "Image(media_type='image/png', data=<16384 characters of base64>)"


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1 KB"),
        (1000 * 1024, "1000 KB"),
        (2**20 - 1, "1024 KB"),
        (2**20, "1.0 MB"),
        (3 * 2**19, "1.5 MB"),
        (100 * 2**20, "100.0 MB"),
    ],
)
def test_sizes_are_said_as_people_read_them(size: int, said: str) -> None:
    assert format_size(size) == said


def test_text_stands_for_all_that_was_said_in_words() -> None:
    content = (TextPart("Compare"), DOT, TextPart("with"), DOT)

    assert text_of(content) == "Compare\n\nwith"
    assert images_of(content) == (DOT, DOT)
    assert text_with_placeholders("", content) == f"Compare\n\n{DOT}\n\nwith\n\n{DOT}"
    assert text_with_placeholders("plain", ()) == "plain"


@given(parts, st.text(max_size=5))
def test_the_text_of_a_message_in_parts_is_theirs_whatever_a_record_says(content: tuple[Part, ...], other: str) -> None:
    for value, kind in ((UserSpoke(other, parts=content), Input), (UserMessage("m1", other, "user", content), Message)):
        assert isinstance(value, UserSpoke | UserMessage)
        assert value.text == (text_of(content) if content else other)
        data = to_data(value)
        assert from_data(data, kind) == value
        assert from_data({**data, "text": "something else"}, kind).text == (
            text_of(content) if content else "something else"
        )


def test_a_message_of_text_is_written_as_ever() -> None:
    assert to_data(UserSpoke("Hi")) == {"type": "user_spoke", "text": "Hi"}
    assert to_data(fold(LLMEngine(), [UserSpoke("Hi")]).history) == [{"type": "user", "id": "m1", "text": "Hi"}]


def test_the_model_is_shown_the_parts_as_they_came() -> None:
    content = (TextPart("What is this?"), DOT)
    transition = LLMEngine().step(AgentState(), UserSpoke("", parts=content))
    *_, call = transition.decisions

    assert isinstance(call, CallModel)
    assert list(call.request.messages) == [UserMessage("m1", "What is this?", parts=content)]


def test_a_picture_counts_as_tokens_and_not_as_the_characters_of_its_bytes() -> None:
    large = Image.of(PNG + bytes(10**6))
    plain = message_size(UserMessage("m1", "abc"))

    assert message_size(UserMessage("m1", "", parts=(TextPart("abc"), large, DOT))) == plain + 2 * IMAGE_TOKENS


def test_pictures_that_do_not_fit_end_the_turn_with_a_reason() -> None:
    engine = LLMEngine(AgentConfig(context_tokens=1000))
    asked = engine.step(AgentState(), UserSpoke("", parts=(DOT, DOT)))
    refused = ModelFailed(EffectId("1.1.0"), Failure("too long", "context_overflow"))
    *_, finished = engine.step(asked.next_state, refused).decisions

    assert "context_overflow" in str(finished)


def test_media_types_are_told_by_whole_beginnings() -> None:
    assert media_type_of(b"") is None
    assert media_type_of(b"GIF88a") is None
    assert media_type_of(b"RIFF....WEB") is None
