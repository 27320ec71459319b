"""The transcript: what it draws and when, scrolling, walking, messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from llmchat.session.state import Notice
from llmchat.ui.widgets.transcript import Transcript
from llmchat.ui.widgets.transcript_items import ReplyItem, TurnItem

from .apps import until
from .talk import RICH, TalkApp, assistant, long_chat, reply, user

SIZE = (80, 24)


def screen(app: TalkApp) -> str:
    """What is on screen, by lines."""
    transcript = app.transcript
    return "\n".join(transcript.render_line(y).text.rstrip() for y in range(transcript.size.height))


async def shows(pilot: Pilot[None], app: TalkApp, text: str) -> None:
    await until(pilot, lambda: text in screen(app))
    await pilot.pause()


def posted(app: TalkApp, kind: type) -> Callable[[], bool]:
    return lambda: any(isinstance(message, kind) for message in app.messages)


# --- drawing ---
async def test_a_long_chat_draws_only_what_is_visible() -> None:
    app = TalkApp(*long_chat(2_000))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Answer 1999")
        transcript = app.transcript
        assert transcript.scroll_y == transcript.max_scroll_y > 10_000
        assert transcript.lines.draws < 10


async def test_a_message_more_draws_only_itself() -> None:
    turns = long_chat(200)
    app = TalkApp(*turns)
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Answer 199")
        draws = app.transcript.lines.draws
        app.transcript.turns = (*turns, user(200, "One more"))
        await shows(pilot, app, "One more")
        assert app.transcript.lines.draws == draws + 1


async def test_streaming_draws_only_the_reply() -> None:
    app = TalkApp(*long_chat(100), user(100, "Go on"))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Go on")
        transcript = app.transcript
        drawn: list[object] = []
        item_draw = TurnItem.draw
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TurnItem, "draw", lambda self, look: (drawn.append(self), item_draw(self, look))[1])
            state = reply("", turn_id="streaming")
            for end in range(0, 1_600, 40):
                transcript.reply = state = replace(state, answer=(RICH * 2)[:end])
                await pilot.pause(0.01)
            transcript.reply = replace(state, answer=state.answer + "\n\nThe end")
            await shows(pilot, app, "The end")
        assert not drawn
        assert transcript.scroll_y == transcript.max_scroll_y


async def test_frames_are_limited() -> None:
    app = TalkApp(user(1, "Go"))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Go")
        draws = 0
        item_draw = ReplyItem.draw

        def counted(self: ReplyItem, look: object) -> object:
            nonlocal draws
            draws += 1
            return item_draw(self, look)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ReplyItem, "draw", counted)
            for count in range(500):
                app.transcript.reply = reply("word " * count)
                if count % 50 == 0:
                    await pilot.pause(0)
            app.transcript.reply = reply("word " * 500 + "end")
            await shows(pilot, app, "end")
        assert draws < 50


async def test_a_finished_reply_keeps_its_lines() -> None:
    app = TalkApp(user(1, "Go"), reply=reply(RICH, turn_id="a2"))
    async with app.run_test(size=(80, 60)) as pilot:
        await shows(pilot, app, "Maths stays")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("llmchat.ui.widgets.markdown_blocks.markdown", lambda *_: pytest.fail("drawn again"))
            app.transcript.turns = (*app.transcript.turns, assistant(2, RICH))
            app.transcript.reply = None
            await shows(pilot, app, "118 tokens")
        assert "Maths stays" in screen(app)


async def test_a_reply_that_starts_afresh_is_drawn_afresh() -> None:
    app = TalkApp(user(1, "Go"), reply=reply("The first try"))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "The first try")
        app.transcript.reply = reply("Another")
        await shows(pilot, app, "Another")
        assert "first" not in screen(app)


async def test_lines_around_the_messages() -> None:
    turns = long_chat(4)
    notices = (
        Notice(after=2, text="Switched to cpu."),
        Notice(after=9, text="The disk is full.", severity="warning"),
    )
    app = TalkApp(*turns, notices=notices, seen_from=2)
    async with app.run_test(size=(80, 60)) as pilot:
        await shows(pilot, app, "! The disk is full.")
        text = screen(app)
        order = [
            "Answer 1",
            "· Switched to cpu.",
            "the model sees the conversation from here",
            "Question 2",
            "Answer 3",
        ]
        assert sorted(order, key=text.index) == order
        assert "SmolLM2-135M-Instruct · ram-offload, bf16" in text
        assert "118 tokens · 14.2 tok/s · first token 0.32 s · finished" in text


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("length", "token limit reached"),
        ("stopped", "stopped by you"),
        ("context", "context full"),
        ("failed", "failed, this part is kept"),
    ],
)
async def test_why_a_reply_stopped(reason: str, words: str) -> None:
    app = TalkApp(user(1, "Go"), assistant(2, "So", reason=reason))  # type: ignore[arg-type]
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, words)


async def test_waiting_says_for_what() -> None:
    app = TalkApp(user(1, "Go"), reply=reply(""), busy_text="reading the prompt · 300 of 2,000")
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "reading the prompt · 300 of 2,000")
        app.transcript.busy_text = ""
        await shows(pilot, app, "Waiting for the first token")


async def test_an_empty_chat_tells_the_keys() -> None:
    app = TalkApp()
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Ask something.")
        app.transcript.turns = (user(1, "Hello"),)
        await shows(pilot, app, "Hello")
        assert "Ask something." not in screen(app)


async def test_thinking_is_live_then_folded_then_as_wanted() -> None:
    app = TalkApp(user(1, "Go"), reply=reply("", "Let me see"))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Let me see")
        app.transcript.reply = reply("It is so.", "Let me see")
        await shows(pilot, app, "▸ Thought · 3 words")
        assert "Let me see" not in screen(app)
        app.transcript.toggle_thinking()
        await shows(pilot, app, "Let me see")
        app.transcript.turns = (*app.transcript.turns, assistant(9, "It is so.", "Let me see"))
        app.transcript.reply = None
        await shows(pilot, app, "118 tokens")
        assert "Let me see" in screen(app)
        app.transcript.toggle_thinking()
        await until(pilot, lambda: "Let me see" not in screen(app))


# --- scrolling ---
async def test_scroll_follows_only_at_the_bottom() -> None:
    app = TalkApp(*long_chat(40))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Answer 39")
        transcript = app.transcript
        transcript.focus()
        await pilot.press("pageup")
        before = screen(app)
        transcript.reply = reply("A line\n\n" * 50, turn_id="streaming")
        await until(pilot, lambda: transcript.max_scroll_y > transcript.scroll_y + 90)
        assert screen(app) == before
        await pilot.press("end")
        transcript.reply = reply("A line\n\n" * 50 + "The last", turn_id="streaming")
        await shows(pilot, app, "The last")


async def test_reading_in_the_middle_of_a_reply_is_not_disturbed() -> None:
    text = "".join(f"Paragraph {number}\n\n" for number in range(60))
    app = TalkApp(*long_chat(4), reply=reply(text, turn_id="a5"))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Paragraph 59")
        transcript = app.transcript
        transcript.scroll_to(y=transcript.scroll_y - 40)
        before = screen(app)
        assert "Paragraph 35" in before
        transcript.reply = reply(text * 2, turn_id="a5")
        await until(pilot, lambda: transcript.max_scroll_y > transcript.scroll_y + 100)
        assert screen(app) == before
        transcript.turns = (*transcript.turns, assistant(5, text * 2))
        transcript.reply = None
        await until(pilot, lambda: transcript.lines.item(transcript.lines.find(10_000)).turn)
        assert screen(app) == before


async def test_sending_scrolls_to_the_end() -> None:
    app = TalkApp(*long_chat(40))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Answer 39")
        app.transcript.focus()
        await pilot.press("home")
        await shows(pilot, app, "Question 0")
        app.transcript.turns = (*app.transcript.turns, user(40, "Now this"))
        await shows(pilot, app, "Now this")


async def test_scrolling_up_shows_every_line_once() -> None:
    """Guessed heights become exact on the way without a jump."""
    app = TalkApp(*long_chat(60))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Answer 59")
        transcript = app.transcript
        for _ in range(2_000):
            if transcript.scroll_y == 0:
                break
            before = screen(app).split("\n")
            transcript.scroll_to(y=transcript.scroll_y - 3)
            after = screen(app).split("\n")
            assert after[3:] == before[:-3] or transcript.scroll_y == 0
        assert "Question 0" in screen(app)
        assert transcript.lines.draws >= 60


async def test_a_resize_keeps_the_message_at_the_top() -> None:
    app = TalkApp(*long_chat(60))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Answer 59")
        transcript = app.transcript
        index = 20
        transcript.select(transcript.turns[index])
        transcript.scroll_to(y=transcript.lines.top(index))
        assert "Question 20" in screen(app)
        await pilot.resize_terminal(50, 30)
        await until(pilot, lambda: transcript.size.width <= 50)
        await until(pilot, lambda: transcript.lines.find(transcript.scroll_offset.y) == index)


async def test_a_resize_at_the_bottom_stays_there() -> None:
    app = TalkApp(*long_chat(20))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Answer 19")
        await pilot.resize_terminal(60, 20)
        await until(pilot, lambda: app.transcript.size.height == 20)
        await shows(pilot, app, "118 tokens")
        assert app.transcript.scroll_y == app.transcript.max_scroll_y


async def test_another_theme_draws_anew() -> None:
    app = TalkApp(user(1, "Go"), assistant(2, "**So**"))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "So")
        before = app.transcript.render_line(0)
        app.theme = "light"
        await until(pilot, lambda: app.transcript.render_line(0) != before)


async def test_old_drawings_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmchat.ui.widgets.transcript_layout.KEPT_LINES", 200)
    app = TalkApp(*long_chat(100))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Answer 99")
        app.transcript.focus()
        for _ in range(40):
            await pilot.press("pageup")
        kept = sum(app.transcript.lines.drawn(index) for index in range(len(app.transcript.lines)))
        assert kept < 40 < app.transcript.lines.draws


# --- walking and messages ---
async def test_walking_and_copying() -> None:
    app = TalkApp(user(1, "Hello"), assistant(2, "Hi **you**\x1b[2J"), user(3, "Bye"))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Bye")
        app.transcript.focus()
        await pilot.press("alt+up", "alt+up")
        assert app.transcript.selected is app.transcript.turns[1]
        await shows(pilot, app, "y copy · c code · r again")
        await pilot.press("y")
        await until(pilot, posted(app, Transcript.CopyRequested))
        assert app.messages[-1].text == "Hi **you**"
        await pilot.press("alt+down", "alt+down")
        await until(pilot, posted(app, Transcript.Left))
        assert app.transcript.selected is None


async def test_code_blocks_one_after_the_other() -> None:
    app = TalkApp(user(1, "Go"), assistant(2, "```\none\n```\n\n```py\ntwo\n```\n"))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "two")
        app.transcript.focus()
        await pilot.press("c", "c", "c")
        await until(pilot, lambda: len(app.messages) == 3)
        assert [message.text for message in app.messages] == ["one\n", "two\n", "one\n"]


async def test_edit_and_answer_again() -> None:
    app = TalkApp(user(1, "Hello"), assistant(2, "Hi"))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Hi")
        app.transcript.focus()
        await pilot.press("e", "r")
        await until(pilot, lambda: len(app.messages) == 2)
        assert (app.messages[0].turn_id, app.messages[0].text) == ("u1", "Hello")
        assert isinstance(app.messages[1], Transcript.RegenerateRequested)
        await pilot.press("alt+up", "e")
        await pilot.pause()
        assert len(app.messages) == 2


async def test_escape_leaves() -> None:
    app = TalkApp(user(1, "Hello"))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Hello")
        app.transcript.focus()
        await pilot.press("alt+up", "escape")
        await until(pilot, posted(app, Transcript.Left))
        assert app.transcript.selected is None


async def test_a_message_beyond_the_screen_is_brought_on_it() -> None:
    app = TalkApp(*long_chat(60))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "Answer 59")
        app.transcript.focus()
        await pilot.press(*["alt+up"] * 9)
        await shows(pilot, app, "Answer 51")


async def test_clicks_select_follow_links_and_unfold() -> None:
    app = TalkApp(user(1, "Hello"), assistant(2, "[x](https://example.org)", "Let me see"))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "example")
        rows = screen(app).split("\n")
        await pilot.click(Transcript, offset=(5, 1))
        assert app.transcript.selected is app.transcript.turns[0]
        await pilot.click(Transcript, offset=(2, next(y for y, row in enumerate(rows) if "example" in row)))
        await until(pilot, posted(app, Transcript.LinkClicked))
        assert app.messages[-1].url == "https://example.org"
        await pilot.click(Transcript, offset=(4, next(y for y, row in enumerate(rows) if "Thought" in row)))
        await shows(pilot, app, "Let me see")


async def test_text_can_be_selected_with_the_mouse() -> None:
    app = TalkApp(user(1, "Hello there"), assistant(2, "General"))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, app, "General")
        await pilot.mouse_down(Transcript, offset=(8, 1))
        await pilot.hover(Transcript, offset=(9, 4))
        await pilot.mouse_up(Transcript, offset=(9, 4))
        await until(pilot, lambda: app.screen.get_selected_text())
        assert app.screen.get_selected_text() == "there\n\nSmolLM2-135M-Instruct · ram-offload, bf16\nGeneral"
